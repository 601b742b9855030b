from levelset.apiserver.resources.json_members import items, part


def test_a_map_is_found_by_name_and_otherwise_empty() -> None:
    assert part({"spec": {"a": 1}}, "spec") == {"a": 1}
    assert part({"spec": None}, "spec") == part({"spec": []}, "spec") == part(None, "spec") == {}


def test_a_list_is_found_by_name_and_otherwise_empty() -> None:
    assert items({"ports": [1]}, "ports") == [1]
    assert items({"ports": {}}, "ports") == items({}, "ports") == items(None, "ports") == []
