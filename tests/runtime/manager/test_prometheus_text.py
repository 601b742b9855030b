"""The Prometheus text format."""

import math

from levelset.runtime.manager.prometheus_text import Family, Registry, Sample, histogram_samples, render


def test_a_family_is_its_help_its_type_and_its_samples():
    family = Family("sold_total", "counter", "What was\nsold.", [Sample(3, {"shop": "a"}), Sample(0.5, {})])
    assert render([family]) == (
        '# HELP sold_total What was\\nsold.\n# TYPE sold_total counter\nsold_total{shop="a"} 3\nsold_total 0.5\n'
    )


def test_labels_are_quoted_so_that_no_text_can_break_a_line():
    text = render([Family("x", "gauge", "x", [Sample(1, {"who": 'a"b\\c\nd'})])])
    assert 'x{who="a\\"b\\\\c\\nd"} 1\n' in text


def test_infinities_and_nan_are_written_like_prometheus_does():
    samples = [Sample(math.inf, {}), Sample(-math.inf, {}), Sample(math.nan, {}), Sample(1e20, {})]
    assert render([Family("x", "gauge", "x", samples)]).splitlines()[2:] == ["x +Inf", "x -Inf", "x NaN", "x 1e+20"]


def test_a_histogram_counts_what_is_below_each_bound_and_everything_in_the_last():
    samples = histogram_samples((0.1, 1.0), [2, 3, 1], 7.5, {"a": "b"})
    shown = render([Family("t", "histogram", "t", samples)]).splitlines()[2:]
    assert shown == [
        't_bucket{a="b",le="0.1"} 2',
        't_bucket{a="b",le="1"} 5',
        't_bucket{a="b",le="+Inf"} 6',
        't_sum{a="b"} 7.5',
        't_count{a="b"} 6',
    ]


def test_families_of_one_name_are_merged_and_sorted():
    registry = Registry()
    registry.add(lambda: [Family("b", "gauge", "b", [Sample(1, {"n": "1"})]), Family("a", "gauge", "a", [])])
    detach = registry.add(lambda: [Family("b", "gauge", "b", [Sample(2, {"n": "2"})])])
    assert [family.name for family in registry.families()] == ["a", "b"]
    assert registry.render().count("# TYPE b gauge") == 1
    assert 'b{n="2"} 2' in registry.render()
    detach()
    detach()
    assert 'b{n="2"} 2' not in registry.render()
