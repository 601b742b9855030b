"""Admission and conversion as plain functions: `defaults`, `validates`, `converts`.

The same values are asked by a server in this process without any connection (`ApiServer(admission=[...])`), by a
manager (`run(websites, webhooks=[...])`), and by a cluster over HTTPS (`Endpoint`, `register`).
"""

from levelset.webhook.answers import Answers
from levelset.webhook.certificates import Certificates, FileCertificates, OwnCertificates, Papers
from levelset.webhook.conversion import Conversions, Converts, converts
from levelset.webhook.endpoint import Endpoint
from levelset.webhook.group import Admits, Several, Webhooks
from levelset.webhook.hooks import FailurePolicy, Hook, HookOptions, Match, SideEffects, defaults, validates
from levelset.webhook.reaching import Reach, Service, Url
from levelset.webhook.registration import configurations, conversion_patches, permissions, register, unregister
from levelset.webhook.review import Operation, Review, User
from levelset.webhook.roundtrip import Lossy, check_round_trip
from levelset.webhook.samples import make_samples
from levelset.webhook.values import Webhook

__all__ = [
    "Admits",
    "Answers",
    "Certificates",
    "Conversions",
    "Converts",
    "Endpoint",
    "FailurePolicy",
    "FileCertificates",
    "Hook",
    "HookOptions",
    "Lossy",
    "Match",
    "Operation",
    "OwnCertificates",
    "Papers",
    "Reach",
    "Review",
    "Service",
    "Several",
    "SideEffects",
    "Url",
    "User",
    "Webhook",
    "Webhooks",
    "check_round_trip",
    "configurations",
    "conversion_patches",
    "converts",
    "defaults",
    "make_samples",
    "permissions",
    "register",
    "unregister",
    "validates",
]
