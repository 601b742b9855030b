"""The parts that kinds of all groups share; metadata, conditions and owners are in `levelset.objects`."""

from levelset import objects
from levelset.kinds.enums import SelectorOperator
from levelset.objects import Model

__all__ = ["FieldSelectorRequirement", "LabelSelector", "LabelSelectorRequirement"]


class LabelSelectorRequirement(Model):
    """One of `matchExpressions` of LabelSelector."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()


class LabelSelector(Model):
    """The labels that something looks for, as they stand in a Deployment or a NetworkPolicy.

    This is the part of an object; `selector` gives the value that matches, prints and parses.
    """

    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_labels: dict[str, str] = {}

    @property
    def selector(self) -> "objects.LabelSelector":
        """The same as a selector value: `deployment.spec.selector.selector.matches(pod.metadata.labels)`."""
        return objects.LabelSelector.from_tree(objects.to_tree(self))


class FieldSelectorRequirement(Model):
    """One of `requirements` of a field selector."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()
