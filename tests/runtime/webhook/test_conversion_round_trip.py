from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset import Condition, Meta, Object, Quantity, Resource, Spec, field
from levelset.errors import ConfigError
from levelset.objects import MicroTime, Model, codec
from levelset.runtime.webhook import LossyConversion, check_round_trip, converts, make_samples
from tests.runtime.webhook.site_kinds import OldSite, Site, SiteSpec, from_old, to_old, versions


def test_lossless_conversions_pass_and_return_the_number_of_round_trips() -> None:
    assert check_round_trip(versions(), count=20) == 3 * 20 * 2


def test_a_lost_field_is_named_with_the_object() -> None:
    def forgets(new: Site) -> OldSite:
        return to_old(new.with_spec(paused=False))

    with pytest.raises(LossyConversion) as caught:
        check_round_trip(converts(Site, OldSite, to_hub=from_old, from_hub=forgets))
    message = str(caught.value)
    assert "Site from example.dev/v2 to example.dev/v1 and back changed the object:" in message
    assert "spec.paused: True became absent" in message
    assert '"paused":true' in message


def test_lost_labels_are_found() -> None:
    def forgets(new: Site) -> OldSite:
        return OldSite.new(new.name, to_old(new).spec)

    with pytest.raises(LossyConversion, match=r"metadata\.(labels|annotations)"):
        check_round_trip(converts(Site, OldSite, to_hub=from_old, from_hub=forgets))


def test_a_failing_conversion_is_reported_with_the_object() -> None:
    def fails(_: Site) -> OldSite:
        raise KeyError("x")

    with pytest.raises(LossyConversion, match="fails failed with KeyError"):
        check_round_trip(converts(Site, OldSite, to_hub=from_old, from_hub=fails))


@given(st.builds(SiteSpec, image=st.text(max_size=5), replicas=st.integers(0, 100), paused=st.booleans()))
def test_samples_may_come_from_a_property_testing_library(spec: SiteSpec) -> None:
    assert check_round_trip(versions(), [Site.new("blog", spec)]) == 2


def test_a_round_trip_check_without_samples_raises() -> None:
    with pytest.raises(ValueError, match="nothing to convert"):
        check_round_trip([])
    with pytest.raises(ValueError, match="nothing to convert"):
        check_round_trip(versions(), [])


class AllSpec(Spec):
    text: Annotated[str, Meta(min_length=2, max_length=4)]
    whole: Annotated[int, Meta(gt=3, lt=100, multiple_of=5)]
    number: Annotated[float, Meta(ge=0, lt=0.5)]
    share: float
    size: Quantity
    at: MicroTime
    conditions: tuple[Condition, ...] = ()
    free: Any = None
    names: Annotated[list[str], Meta(min_length=1, max_length=2)] = field(default_factory=lambda: ["a"])
    inner: "AllSpec | None" = None
    table: dict[str, int] = {}


class All(Resource[AllSpec, None], api="example.dev/v1", scope="Cluster"):
    """A kind with a field of each sort."""


def test_samples_fit_their_class_and_are_the_same_each_time() -> None:
    samples = make_samples(All, count=50, seed=3)
    for one in samples:
        assert codec.from_tree(All, codec.to_tree(one)) == one
        assert 2 <= len(one.spec.text) <= 4
        assert one.spec.whole in range(5, 100, 5)
        assert one.namespace is None
    assert samples == make_samples(All, count=50, seed=3)
    assert samples != make_samples(All, count=50, seed=4)


class Patterned(Object, api="example.dev/v1"):
    code: Annotated[str, Meta(pattern="^x+$")]


def test_a_field_without_a_generated_value_is_named() -> None:
    with pytest.raises(ConfigError, match=r"code: cannot generate a string that matches '\^x\+\$'"):
        make_samples(Patterned)


class Round(Model, tag_field="form", tag="round"):
    radius: int


class Square(Model, tag_field="form", tag="square"):
    side: Annotated[int, Meta(ge=1)] = 1


class FigureSpec(Spec):
    shape: Round | Square
    more: tuple[Round | Square, ...] = ()
    at: tuple[int, int] = (0, 0)
    words: Annotated[dict[str, str], Meta(max_length=1)] = {}


class Figure(Resource[FigureSpec, None], api="example.dev/v1"):
    """One of several forms."""


def test_samples_include_tagged_classes_tuples_and_small_maps() -> None:
    made = make_samples(Figure, count=50)
    assert {type(one.spec.shape).__name__ for one in made} == {"Round", "Square"}
    assert {type(one).__name__ for sample in made for one in sample.spec.more} == {"Round", "Square"}
    assert {len(one.spec.at) for one in made} == {2}
    assert {len(one.spec.words) for one in made} == {0, 1}
