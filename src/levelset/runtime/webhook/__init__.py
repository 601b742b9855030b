"""Admission and conversion as plain functions: `defaults`, `validates`, `converts`.

The same values are asked by a server in this process without any connection (`ApiServer(admission=[...])`), by a
manager (`run(websites, webhooks=[...])`), and by a cluster over HTTPS (`Endpoint`, `register`).
"""

from levelset.runtime.webhook.admission import (
    FailurePolicy,
    Hook,
    HookOptions,
    Match,
    Operation,
    Review,
    SideEffects,
    User,
    Webhook,
    defaults,
    validates,
)
from levelset.runtime.webhook.certificates import Certificates, FileCertificates, OwnCertificates, Papers
from levelset.runtime.webhook.client_config import Reach, Service, Url
from levelset.runtime.webhook.conversion import Conversions, Converts, Lossy, check_round_trip, converts
from levelset.runtime.webhook.endpoint import Endpoint
from levelset.runtime.webhook.registration import configurations, conversion_patches, permissions, register, unregister
from levelset.runtime.webhook.review_handler import Answers
from levelset.runtime.webhook.sample_objects import make_samples
from levelset.runtime.webhook.webhook_set import Admits, Several, Webhooks

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
