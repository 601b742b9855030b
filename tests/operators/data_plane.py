"""The local data plane for operators of other projects: their images are programs that were built from their sources.

Run by `levelset up tests.operators.data_plane`; LEVELSET_OPERATOR_IMAGES has images and their command lines, as JSON.
"""

import json
import os

from levelset_local import Options, local_system

__all__ = ["local"]

local = local_system(
    Options(
        images=json.loads(os.environ.get("LEVELSET_OPERATOR_IMAGES", "{}")),
        namespaces=True,  # they read the token of their service account and the certificate of their webhooks at paths
        all_addresses=True,  # and listen at ports such as :8443
    )
)
