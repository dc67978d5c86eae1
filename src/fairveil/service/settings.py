"""How a service is started; what would be reachable without protection does not start."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from fairveil.errors import SpecError
from fairveil.loop.tokens import ROLES

DEFAULT_STORE = "sqlite:///fairveil-data/store.db"


@dataclass(frozen=True)
class Settings:
    """The options of ``fairveil serve``."""

    store: str = DEFAULT_STORE
    host: str = "127.0.0.1"
    port: int = 8080
    anchor: str | None = None
    key_file: str | None = None
    clock_gap: str = "7d"
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    public: bool = False
    allow_host: tuple[str, ...] = ()
    rate_limit: int | None = None
    deadline: float = 5.0
    max_connections: int | None = None
    migrate: bool = False
    new_key: bool = False
    log_level: str = "warning"
    trust_user: str | None = None
    """The header in which a proxy names who is logged in; its X-Forwarded-Groups are mapped to roles."""
    map: tuple[str, ...] = ()
    """``group=role``."""
    streams: str | None = None
    """A folder into which `fairveil release` publishes: shown on a page, never written."""

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SpecError("certificate and key come together", path="--tls-cert", fix="give --tls-cert and --tls-key")
        for option, name in (("--tls-cert", self.tls_cert), ("--tls-key", self.tls_key)):
            if name is not None and not Path(name).is_file():
                raise SpecError("there is no such file", path=option, given=name)
        if self.streams is not None and not Path(self.streams).is_dir():
            raise SpecError("there is no such folder", path="--streams", given=self.streams)
        if self.rate_limit is not None and self.rate_limit < 1:
            raise SpecError("a rate is at least one a second", path="--rate-limit", given=self.rate_limit)
        self._check_proxy()
        if not 0.1 <= self.deadline <= 60:
            raise SpecError("a deadline is a few seconds", path="--deadline", given=self.deadline, allowed="0.1 to 60")

    def _check_proxy(self) -> None:
        if self.trust_user is not None and not (self.behind_proxy and self.loopback):
            raise SpecError(
                "whoever reaches the service could name anybody in that header",
                path="--trust-user",
                given=self.host,
                allowed="--behind-proxy, bound to loopback",
                fix="bind to 127.0.0.1 and let the proxy run on this machine",
            )
        for pair in self.map:
            group, mark, role = pair.partition("=")
            if not group or not mark or role not in ROLES:
                allowed = f"GROUP=ROLE; roles: {', '.join(ROLES)}"
                raise SpecError("a group is mapped to a role", path="--map", given=pair, allowed=allowed)

    def roles_of(self, groups: list[str]) -> frozenset[str]:
        """The roles of somebody whom a proxy says to be in these groups."""
        pairs = [pair.split("=", 1) for pair in self.map]
        return frozenset(role for group, role in pairs if group in groups)

    @cached_property
    def loopback(self) -> bool:
        """Nobody but this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    @cached_property
    def hosts(self) -> frozenset[str]:
        """The names under which it may be called."""
        names = {self.host.lower(), f"[{self.host.lower()}]", *(name.lower() for name in self.allow_host)}
        return frozenset(names | ({"localhost", "127.0.0.1", "[::1]"} if self.loopback else set()))

    def check_exposure(self, has_tokens: bool) -> None:
        """Refuse to be reachable from outside without tokens, or without something that encrypts."""
        if self.loopback:
            return
        if not has_tokens:
            raise SpecError(
                "this address can be reached from outside, and there is no token",
                path="--host",
                given=self.host,
                allowed="127.0.0.1, or a store with a token",
                fix="fairveil token add --name ... --role operate",
            )
        if self.tls_cert is None and not self.behind_proxy:
            raise SpecError(
                "this address can be reached from outside, and nothing encrypts",
                path="--host",
                given=self.host,
                fix="give --tls-cert and --tls-key, or --behind-proxy when a proxy encrypts",
            )

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        table = json.loads(text)
        return cls(**{**table, "allow_host": tuple(table["allow_host"]), "map": tuple(table["map"])})
