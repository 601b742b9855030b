"""The texts that new projects begin with: `string.Template` texts, of which `$$` is a dollar."""

from levelset.cli.scaffold.templates import kind, project, webhook

__all__ = ["kind", "project", "webhook"]
