"""Input that may look wrong and is right."""

from __future__ import annotations

import numpy as np
import pytest
from estimator_names import L, X, table

from pairloom import PairwiseSVC

# Each is true.
RIGHT = [
    "np.array_equal(PairwiseSVC(**SMALL).fit(read_only, y).predict_proba(read_only), model.predict_proba(X))",
    "np.array_equal(PairwiseSVC(**SMALL).fit(mapped, y).predict_proba(mapped), model.predict_proba(X))",
    "len(model.add_class(9, mapped[:6], mapped, y).classes_) == 5",
    "model.retrain_pairs([(0, 1)], read_only, y, C=np.float32(2)).C_ == star.C_",
    "[wave.pairs for wave in star.grow(mapped, y)] == [3, 6]",
    "model.add_class(np.int64(9), X_new, X, y).classes_.tolist() == [0, 1, 2, 3, 9]",
    "model.add_class(np.uint8(9), X_new, X, y).classes_.dtype == np.int64",
    "spoken.add_class(np.str_('longer'), X_new, X, words).classes_[-1] == 'longer'",
    "real.remove_class(0).classes_.tolist() == [1.0, 2.0, 3.0]",
    "model.set_params(C=(0.1, 1.0)).fit(X, y).C_ in (0.1, 1.0)",
    "model.set_params(random_state=2**70).fit(X, y).score(X, y) > 0.5",
    "saved(model.set_params(whiten=np.float32(0.5)).fit(X, y)).whiten_ == 0.5",
    "saved(model.set_params(C=np.array([0.1, 1.0])).fit(X, y)).C == [0.1, 1.0]",
    "saved(model.set_params(class_weight={np.int64(0): np.float32(2)}).fit(X, y)).class_weight == {0: 2.0}",
    "saved(model.set_params(thresholds=np.bool_(True)).fit(X, y)).thresholds is True",
    "saved(dated).remove_class(dates[0]).classes_.dtype == dates.dtype",
    "saved(PairwiseSVC(**SMALL).fit(X, dates.astype('M8[ns]'))).classes_.dtype == 'M8[ns]'",
    "saved(PairwiseSVC(**SMALL).fit(X, y.astype('m8[s]'))).remove_class(np.timedelta64(1, 's')).C_ > 0",
    "saved(PairwiseSVC(**SMALL).fit(X, words.astype(object))).predict(X[:1])[0] in 'abcd'",
    "saved(PairwiseSVC(**SMALL).fit(X, y > 1)).classes_.tolist() == [False, True]",
    "saved(named).feature_names_in_.tolist() == ['u', 'v', 'w']",
    "PairwiseSVC.from_run(run).predict_proba(X).shape == (48, 4)",
    "couple(L[:, :, :0]).shape == (0, 3)",
    "couple(read_only_L).shape == (2, 3)",
]


@pytest.mark.parametrize("row", RIGHT)
def test_what_is_unusual_but_right_works(row, here, tmp_path):
    def saved(model):
        model.save(tmp_path / "model")
        loaded = PairwiseSVC.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.classes_, model.classes_)
        rows = table if hasattr(model, "feature_names_in_") else X
        np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
        return loaded

    read_only, read_only_L = X.copy(), L.copy()
    read_only.flags.writeable = read_only_L.flags.writeable = False
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    given = {"saved": saved, "read_only": read_only, "mapped": mapped, "read_only_L": read_only_L}
    assert eval(row, here | given)
