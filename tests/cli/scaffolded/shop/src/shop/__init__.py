"""shop: an operator made with levelset."""
