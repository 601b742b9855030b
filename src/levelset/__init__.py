"""levelset."""
