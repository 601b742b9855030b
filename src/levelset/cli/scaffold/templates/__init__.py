"""The files of new projects as `string.Template` sources, in which `$$` is a dollar sign."""

from levelset.cli.scaffold.templates import kind, project, webhook

__all__ = ["kind", "project", "webhook"]
