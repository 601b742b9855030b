"""CEL expressions of webhooks and admission policies: match conditions, compiled programs, cost budgets."""

__all__: list[str] = []
