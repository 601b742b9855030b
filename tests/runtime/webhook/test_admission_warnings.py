from levelset.runtime.webhook.admission import MAX_WARNING, truncate_warnings


def test_warnings_are_single_lines_without_duplicates() -> None:
    assert truncate_warnings(["a\nb\x00c  d", "", "a b c d", "e"]) == ["a b c d", "e"]


def test_a_long_warning_is_cut_where_a_server_would_cut_it() -> None:
    (cut,) = truncate_warnings(["x" * 300])
    assert (len(cut), cut[-4:]) == (MAX_WARNING, "x...")


def test_all_warnings_together_are_bounded() -> None:
    fitted = truncate_warnings([f"{number:03}" * 80 for number in range(40)])
    assert 3800 < sum(map(len, fitted)) <= 4096
