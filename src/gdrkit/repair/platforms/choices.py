"""The user's choices on how steps are carried out."""

from __future__ import annotations

from msgspec import Struct

OWN_KEY = "/var/lib/gdrkit/keys/module-signing.key"
OWN_CERTIFICATE = "/var/lib/gdrkit/keys/module-signing.der"


class ProcedureChoices(Struct, frozen=True, kw_only=True):
    """The defaults suit most machines."""

    key: str = ""  # the user's private key; "": gdrkit creates one
    certificate: str = ""
    digest: str = "sha256"
    enrol: bool = True  # enrol the key in the firmware
    acs: str = (
        "unit"  # how ACS bits stay cleared across reboots: unit, command-line; or volatile: they do not
    )

    @property
    def key_path(self) -> str:
        return self.key or OWN_KEY

    @property
    def certificate_path(self) -> str:
        return self.certificate if self.key else OWN_CERTIFICATE
