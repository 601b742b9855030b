"""Admission and conversion webhooks as plain functions: `defaults`, `validates`, `converts`.

The same values are called by an in-process server (`ApiServer(admission=[...])`), by a manager
(`run(websites, webhooks=[...])`), and by a cluster over HTTPS (`Endpoint`, `register`).
"""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.runtime.webhook.admission import (
        AdmissionHook,
        FailurePolicy,
        HookOptions,
        MatchCondition,
        Operation,
        Review,
        SideEffects,
        User,
        Webhook,
        defaults,
        validates,
    )
    from levelset.runtime.webhook.certificates import CertificateBundle, Certificates, FileCertificates, OwnCertificates
    from levelset.runtime.webhook.client_config import ClientConfig, Service, Url
    from levelset.runtime.webhook.conversion import Conversion, Conversions, LossyConversion, check_round_trip, converts
    from levelset.runtime.webhook.endpoint import Endpoint
    from levelset.runtime.webhook.registration import (
        configurations,
        conversion_patches,
        permissions,
        register,
        unregister,
    )
    from levelset.runtime.webhook.review_handler import ReviewHandler
    from levelset.runtime.webhook.sample_objects import make_samples
    from levelset.runtime.webhook.webhook_set import InProcessServer, NestedWebhooks, Webhooks

__all__ = [
    "AdmissionHook",
    "CertificateBundle",
    "Certificates",
    "ClientConfig",
    "Conversion",
    "Conversions",
    "Endpoint",
    "FailurePolicy",
    "FileCertificates",
    "HookOptions",
    "InProcessServer",
    "LossyConversion",
    "MatchCondition",
    "NestedWebhooks",
    "Operation",
    "OwnCertificates",
    "Review",
    "ReviewHandler",
    "Service",
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

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.runtime.webhook.admission": (
            "AdmissionHook FailurePolicy HookOptions MatchCondition Operation Review SideEffects User Webhook "
            "defaults validates"
        ),
        "levelset.runtime.webhook.certificates": ("CertificateBundle Certificates FileCertificates OwnCertificates"),
        "levelset.runtime.webhook.client_config": "ClientConfig Service Url",
        "levelset.runtime.webhook.conversion": "Conversion Conversions LossyConversion check_round_trip converts",
        "levelset.runtime.webhook.endpoint": "Endpoint",
        "levelset.runtime.webhook.registration": ("configurations conversion_patches permissions register unregister"),
        "levelset.runtime.webhook.review_handler": "ReviewHandler",
        "levelset.runtime.webhook.sample_objects": "make_samples",
        "levelset.runtime.webhook.webhook_set": "InProcessServer NestedWebhooks Webhooks",
    },
)
