"""Names that are less, or more, than those of most objects: what is wrong with them."""

import re

__all__ = ["check_dns1035_label", "check_path_segment"]

_DNS1035 = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")


def check_dns1035_label(text: str) -> list[str]:
    """The problems of this text as a name that begins with a letter and has no dots, such as a service's."""
    if _DNS1035.fullmatch(text):
        return []
    rule = "must be at most 63 lower-case letters, digits or '-', the first a letter and the last a letter or digit"
    return [f"{rule} (such as 'my-name')"]


def check_path_segment(text: str) -> list[str]:
    """The problems of a name that only has to fit into a path, such as a role's: `system:node` has none."""
    if text in (".", ".."):
        return [f"may not be {text!r}"]
    return [f"may not contain {sign!r}" for sign in "/%" if sign in text]
