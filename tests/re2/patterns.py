"""Strategies for patterns and texts: some are valid in Python too, and some are invalid everywhere."""

from hypothesis import strategies as st

__all__ = ["NONSENSE", "PATTERNS", "TEXTS"]

PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\b", "^", "$", "(?:x{2})", "(a*b)"]),
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})")
        | st.tuples(inner, st.sampled_from(["*", "?", "+", "{2}", "{1,3}", "*?", "??", "+?", "{0,2}?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        )
    ),
    max_leaves=8,
)
TEXTS = st.text("abcx1 \n", max_size=12)
NONSENSE = st.text(st.sampled_from(list("ab()[]{}|*+?\\^$.-:<>P=!,1dwpLQEsimU")), max_size=20)
