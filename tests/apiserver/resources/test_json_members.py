from levelset.apiserver.resources.json_members import list_member, map_member


def test_an_absent_map_member_is_empty() -> None:
    assert map_member({"spec": {"a": 1}}, "spec") == {"a": 1}
    assert map_member({"spec": None}, "spec") == map_member({"spec": []}, "spec") == map_member(None, "spec") == {}


def test_an_absent_list_member_is_empty() -> None:
    assert list_member({"ports": [1]}, "ports") == [1]
    assert list_member({"ports": {}}, "ports") == list_member({}, "ports") == list_member(None, "ports") == []
