"""Scopes: which rules hold for whom, and that nobody who acts for another may do more than that other may.

A principal "acme/payments/agent42" acts in the scope ("acme", "payments", "agent42"). What holds there is found by a
walk from the root () down to it: each binding on the way gives a template's rules to its scope and to all below.
    override     in place of what the scopes above bound of this template (nothing above: simply added)
    union        beside it
    tombstone    takes it away
A rule that is locked can be neither overridden nor taken away.

Delegation. Rules only restrict, so a delegate holds no more than its delegator just where every restriction of the
delegator binds the delegate too: each (template, parameters) in force for the delegator has to be in force for the
delegate, the same template with equal parameters; a stricter parameter is a different restriction, and is bound beside
it by a union. This is checked and never repaired: a scope that fails it is refused whole. The delegator's rules run
first, in the delegator's order, so that no rewrite of the delegate's own comes before them. With that, whatever blocks
the delegator blocks the delegate.

A scope's delegator is the one that the nearest binding on its walk names; others that stand further up have to be on
that delegator's own chain. A chain that leads back, or is longer than `max_delegation_depth`, is refused. So is a call
whose `parent_principal` is not the delegator that its scope's bindings name, and one that names a delegator where they
name none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal, get_args

from interlock.base.canonical import digest
from interlock.base.errors import InterlockError
from interlock.engine.event import SensorEvent
from interlock.engine.mutex import Mutex
from interlock.engine.policy.model import Policy, Rule, RuleFunction
from interlock.engine.rules import code_rules

__all__ = [
    "MAX_SCOPE",
    "Binding",
    "Resolved",
    "Scope",
    "ScopeRefused",
    "ScopeRegistry",
    "ScopedEngine",
    "Template",
    "principal_scope",
    "scoped_engine",
]

Scope = tuple[str, ...]
Mode = Literal["override", "union", "tombstone"]
Built = RuleFunction | Rule | Policy | Iterable[RuleFunction | Rule]

MAX_SCOPE: Final = 32  # steps in a scope
_PARAMS: Final = "interlock/scopes/parameters/v1"
_POLICY: Final = "interlock/scopes/policy/v1"
_ROOT: Final[Scope] = ()


class ScopeRefused(InterlockError):
    """A principal for whom no rules can be found that it may act under; every call of it is refused."""

    code = "not-allowed"


def principal_scope(principal: str) -> Scope:
    """The scope of a principal: "acme/payments/agent42" is ("acme", "payments", "agent42").

    Raises: ScopeRefused, where a step is empty or there are more than MAX_SCOPE: two spellings never mean one scope.
    """
    scope = tuple(principal.split("/"))
    if len(scope) > MAX_SCOPE or not all(scope):
        raise ScopeRefused("the principal is no path like acme/payments/agent42", fix="name it with steps between /")
    return scope


@dataclass(frozen=True, slots=True)
class Template:
    """Rules with parameters: `build(**parameters)` gives a rule, several, or a Policy, of which the rules count.

    `id` is its one name.
    """

    id: str
    build: Callable[..., Built] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Binding:
    """A template's rules, given to a scope and to all below it; () is everybody.

    `delegated_from` is the scope on whose behalf this scope acts. Raises: TypeError, ValueError, for what is none.
    """

    scope: Scope
    template: Template
    params: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    mode: Mode = field(default="override", kw_only=True)
    delegated_from: Scope | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        template: object = self.template
        if not isinstance(template, Template):
            raise TypeError(f"a binding gives a Template to a scope, not a {type(template).__name__}")
        scopes: tuple[object, ...] = (self.scope, _ROOT if self.delegated_from is None else self.delegated_from)
        for scope in scopes:
            if not isinstance(scope, tuple) or not all(isinstance(step, str) for step in scope):
                raise TypeError('a scope is a tuple of texts, like ("acme", "payments")')
            if len(scope) > MAX_SCOPE or not all(step and "/" not in step for step in scope):
                raise ValueError("a step of a scope is not empty and holds no /, and there are at most 32")
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode is {self.mode!r}; it can be {', '.join(get_args(Mode))}")
        if self.mode == "tombstone" and (self.params or self.delegated_from is not None):
            raise ValueError("a tombstone takes no parameters and delegates nothing")


@dataclass(frozen=True, slots=True)
class _Grant:
    """A template with its parameters: one restriction, which is equal to another just where both are."""

    template: str
    params: str
    rules: tuple[Rule, ...] = field(repr=False, compare=False)
    digest: str | None = field(repr=False, compare=False)

    @property
    def locked(self) -> bool:
        return any(rule.locked for rule in self.rules)


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """What holds in a scope: its restrictions in the order in which they run, and its chain of delegators."""

    scope: Scope
    grants: tuple[_Grant, ...]
    chain: tuple[Scope, ...]

    @property
    def delegator(self) -> Scope | None:
        return self.chain[0] if self.chain else None


class ScopeRegistry:
    """Bindings by scope. It may grow while it is in use; each `bind` is in force from the next call on."""

    def __init__(self, bindings: Iterable[Binding] = (), *, max_delegation_depth: int = 8) -> None:
        if max_delegation_depth < 0:
            raise ValueError("max_delegation_depth is not negative")
        self.max_delegation_depth: Final = max_delegation_depth
        self.version = 0
        self._mutex = Mutex()
        self._templates: dict[str, Template] = {}
        self._bound: dict[Scope, tuple[tuple[Binding, _Grant], ...]] = {}
        self._resolved: dict[Scope, Resolved] = {}
        self.bind(*bindings)

    def bind(self, *bindings: Binding) -> None:
        """Add bindings, all or none.

        Raises: ValueError, where two templates have one id, a scope binds a template twice without a union, or names
        two delegators; whatever a template raises when it is built.
        """
        with self._mutex:
            templates, bound = dict(self._templates), dict(self._bound)
            for binding in bindings:
                template = binding.template
                if templates.setdefault(template.id, template) is not template:
                    raise ValueError(f"two templates have the id {template.id!r}")
                here = bound.get(binding.scope, ())
                _check_beside(binding, here)
                bound[binding.scope] = (*here, (binding, _grant(binding)))
            self._templates, self._bound, self._resolved = templates, bound, {}
            self.version += 1

    def resolve(self, scope: Scope) -> Resolved | None:
        """What holds in a scope, or None where nothing is bound on its walk. Raises: ScopeRefused."""
        with self._mutex:
            return self._resolve(scope, ())

    def _resolve(self, scope: Scope, below: tuple[Scope, ...]) -> Resolved | None:
        """`below` are the scopes that were resolved because of this one, each delegated from the next."""
        home = self._nearest(scope)
        if home is None:
            return None
        if home in below:
            raise ScopeRefused("the delegation leads back to itself", where=_named(scope))
        if len(below) > self.max_delegation_depth:
            raise ScopeRefused(f"the delegation has more than {self.max_delegation_depth} steps", where=_named(scope))
        if home not in self._resolved:
            self._resolved[home] = self._walked(home, (*below, home))
        found = self._resolved[home]
        if len(below) + len(found.chain) > self.max_delegation_depth:
            raise ScopeRefused(f"the delegation has more than {self.max_delegation_depth} steps", where=_named(scope))
        return found

    def _nearest(self, scope: Scope) -> Scope | None:
        """The lowest scope on the walk that has a binding: what holds there holds here."""
        return next((scope[:n] for n in range(len(scope), -1, -1) if scope[:n] in self._bound), None)

    def _walked(self, home: Scope, below: tuple[Scope, ...]) -> Resolved:
        held: dict[str, tuple[_Grant, ...]] = {}
        delegators: list[Scope] = []
        for n in range(len(home) + 1):
            for binding, grant in self._bound.get(home[:n], ()):
                held[grant.template] = _merged(binding, grant, held.get(grant.template, ()))
                if binding.delegated_from is not None and binding.delegated_from not in delegators:
                    delegators.append(binding.delegated_from)
        grants = tuple(dict.fromkeys(grant for together in held.values() for grant in together))
        if not delegators:
            return Resolved(home, grants, ())
        return self._attenuated(home, grants, delegators, below)

    def _attenuated(
        self, home: Scope, grants: tuple[_Grant, ...], delegators: list[Scope], below: tuple[Scope, ...]
    ) -> Resolved:
        """Raises: ScopeRefused, where the scope lacks a restriction of its delegator."""
        *others, nearest = delegators
        above = self._resolve(nearest, below)
        if above is None:
            raise ScopeRefused(f"it is delegated from {_named(nearest)}, where nothing is bound", where=_named(home))
        chain = (nearest, *above.chain)
        if not set(others) <= set(chain):
            raise ScopeRefused("it has two delegators, and neither acts for the other", where=_named(home))
        missing = [grant.template for grant in above.grants if grant not in grants]
        if missing:
            raise ScopeRefused(
                f"it would hold more than its delegator {_named(nearest)}: {missing[0]} is not bound as it is there",
                where=_named(home),
                fix="bind the same templates with the same parameters",
            )
        return Resolved(home, tuple(dict.fromkeys((*above.grants, *grants))), chain)


class ScopedEngine:
    """Picks the policy of each call by its principal: `interlock.install(scopes=ScopedEngine(registry))`.

    A call without a principal, or with one that no binding reaches, is refused. With `allow_unscoped` only the rules
    that hold for everybody judge it: that weakens the guard, and the posture says so.
    """

    def __init__(self, registry: ScopeRegistry, *, allow_unscoped: bool = False) -> None:
        self.registry: Final = registry
        self.allow_unscoped: Final = allow_unscoped
        self._mutex = Mutex()
        self._seen: tuple[Policy, int] | None = None
        self._made: dict[Resolved, Policy] = {}

    def policy_for(self, event: SensorEvent, base: Policy) -> Policy:
        """The rules of `base`, which hold for everybody, and then those of the event's scope. Raises: ScopeRefused."""
        resolved = self.registry.resolve(_ROOT if event.principal is None else principal_scope(event.principal))
        if event.principal is None or resolved is None:
            if not self.allow_unscoped:
                what = "the call has no principal" if event.principal is None else "no scope is bound for the principal"
                raise ScopeRefused(what, fix="act inside span(principal=...), and bind its scope")
            return base if resolved is None else self._policy(resolved, base)
        _check_delegator(event, resolved)
        return self._policy(resolved, base)

    def _policy(self, resolved: Resolved, base: Policy) -> Policy:
        version = self.registry.version
        with self._mutex:
            # by the policy itself, not by its digest, which counts rules of code by no more than their names
            if self._seen is None or self._seen[0] is not base or self._seen[1] != version:
                self._seen, self._made = (base, version), {}
            if resolved not in self._made:
                self._made[resolved] = _compiled(resolved.grants, base)
            return self._made[resolved]


def scoped_engine(given: ScopedEngine | ScopeRegistry) -> ScopedEngine:
    """What `install(scopes=...)` takes, as an engine. Raises: TypeError."""
    if isinstance(given, ScopedEngine):
        return given
    if not isinstance(given, ScopeRegistry):
        raise TypeError("scopes is a ScopedEngine or a ScopeRegistry")
    return ScopedEngine(given)


def _check_delegator(event: SensorEvent, resolved: Resolved) -> None:
    if event.parent_principal is None and resolved.delegator is None:
        return
    if event.parent_principal is None:
        raise ScopeRefused(
            "the principal acts for another, and the call does not say for whom",
            fix="act inside span(principal=..., parent_principal=...)",
        )
    if resolved.delegator is None or principal_scope(event.parent_principal) != resolved.delegator:
        raise ScopeRefused("the principal does not act for whom the call names")


def _compiled(grants: tuple[_Grant, ...], base: Policy) -> Policy:
    rules = code_rules((*base.rules, *(rule for grant in grants for rule in grant.rules)))
    parts = [[grant.template, grant.params, grant.digest, [[r.id, r.phase] for r in grant.rules]] for grant in grants]
    return replace(base, rules=rules, digest=digest(_POLICY, [base.digest, parts]).hex())


def _check_beside(binding: Binding, here: tuple[tuple[Binding, _Grant], ...]) -> None:
    """Raises: ValueError, where a binding contradicts others of its scope."""
    for other, _ in here:
        if other.template is binding.template and (other.mode, binding.mode) != ("union", "union"):
            raise ValueError(f"{_named(binding.scope)} binds {binding.template.id} twice; use mode='union'")
        if None not in (other.delegated_from, binding.delegated_from) and (
            other.delegated_from != binding.delegated_from
        ):
            raise ValueError(f"{_named(binding.scope)} names two delegators")


def _merged(binding: Binding, grant: _Grant, above: tuple[_Grant, ...]) -> tuple[_Grant, ...]:
    """What a template's grants are below a binding, and what they were above. Raises: ScopeRefused."""
    if binding.mode == "union":
        return (*above, grant)
    below = () if binding.mode == "tombstone" else (grant,)
    if any(old.locked and old not in below for old in above):
        raise ScopeRefused(f"{grant.template} is locked further up", where=_named(binding.scope))
    return below


def _grant(binding: Binding) -> _Grant:
    template, params = binding.template, dict(binding.params)
    named = digest(_PARAMS, params).hex()
    if binding.mode == "tombstone":
        return _Grant(template.id, named, (), None)
    built = template.build(**params)
    if isinstance(built, Policy):
        return _Grant(template.id, named, built.rules, built.digest)
    return _Grant(
        template.id, named, code_rules((built,) if isinstance(built, Rule) or callable(built) else built), None
    )


def _named(scope: Scope) -> str:
    return "/".join(scope) or "the root scope"
