"""What a user may choose about how steps are carried out."""

from __future__ import annotations

from msgspec import Struct

OWN_KEY = "/var/lib/gdrkit/keys/module-signing.key"
OWN_CERTIFICATE = "/var/lib/gdrkit/keys/module-signing.der"


class ProcedureChoices(Struct, frozen=True, kw_only=True):
    """Left as they are, these serve most machines."""

    key: str = ""  # a private key made by somebody else; "": gdrkit makes one
    certificate: str = ""
    digest: str = "sha256"
    enrol: bool = True  # ask the firmware to trust the key
    acs: str = "unit"  # how cleared ACS bits outlast a boot: unit, command-line, or not at all: volatile

    @property
    def key_path(self) -> str:
        return self.key or OWN_KEY

    @property
    def certificate_path(self) -> str:
        return self.certificate if self.key else OWN_CERTIFICATE
