import pytest
from bench_command import bench


@pytest.mark.long
def test_both_models_and_every_gradient_are_in_the_tables(tmp_path):
    _, record = bench("learning", "--small", json_file=tmp_path / "rows.json")
    digits, *gradients = record["rows"]
    assert digits["data"] == "digits"
    assert digits["difference"] == pytest.approx(digits["log_loss_after"] - digits["log_loss_before"])
    assert [row["coupling"] for row in gradients] == ["normal", "stratified", "bradley_terry", "wlw2"]
