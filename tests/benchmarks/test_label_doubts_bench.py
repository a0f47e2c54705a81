from bench_command import bench


def test_wrong_labels_come_first(tmp_path):
    _, record = bench("label-doubts", "--small", json_file=tmp_path / "doubts.json")
    first = record["rows"][0]
    assert first["method"] == "label_doubts"
    assert first["precision"] > 0.5
    assert first["average_precision"] > 0.5
