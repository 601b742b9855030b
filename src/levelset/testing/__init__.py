"""What tests need: shipped, because whoever builds on levelset writes tests too."""

from levelset.testing.contracts import STORAGE_CONTRACT, Check, check_storage
from levelset.testing.mutation import Mutated, Mutation, MutationGuard, mutation_guard

__all__ = ["STORAGE_CONTRACT", "Check", "Mutated", "Mutation", "MutationGuard", "check_storage", "mutation_guard"]
