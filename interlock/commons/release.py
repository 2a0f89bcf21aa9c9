"""A pack's way through the rings: published, reviewed, promoted, taken back; each in the six steps of `steps`.

    publish      in canary or beta, once the ring's gate has let the pack through; the gate's record is logged first
    review       a listed reviewer's word on what is out in a ring; never on a pack of their own
    promote      on to a later ring: through that ring's gate; stable needs as many approvals as the list asks for
    revoke       a version or rules of it: by its author's key or the ring's, nobody begins to use it; as a removal,
                 which the top-level keys sign, whoever has it in force takes it out
    reviewers    who they are, and how many of them stable needs

Nothing is begun for a pack that does not parse, that the gate refuses, or whose version is not newer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.base.files import BadState, read_bounded
from interlock.base.keys import BadKey, Ed25519Signer
from interlock.commons.channel import Channel, parse_channel
from interlock.commons.gate import Bench, GateRefused, gate_record
from interlock.commons.journal import Item, Loose
from interlock.commons.layout import REMOVALS_PATH, REVIEWERS_PATH, channel_path, pack_path, revoked_path, role_of_pack
from interlock.commons.pack import BadPack, Pack, kind_of, parse_pack
from interlock.commons.promotion import NEEDS_PROMOTION
from interlock.commons.records import (
    MAX_EVIDENCE,
    MAX_RECORD,
    BadRecord,
    Evidence,
    Promotion,
    Review,
    Revocation,
    parse_evidence_list,
    parse_review,
    parse_revocation,
    seen_us,
)
from interlock.commons.reviewers import Reviewers, parse_reviewers
from interlock.commons.rings import RINGS, known_ring
from interlock.commons.signers import RoleSigner
from interlock.commons.steps import Begun, Published, Steps
from interlock.transparency.entry import MAX_ENTRY
from interlock.transparency.proof import MAX_PROOF_FILE, parse_proof

__all__ = ["Releases"]

_NO_BENCH: Final = Bench()
_EVIDENCE_ROOM: Final = 2 * (MAX_ENTRY + MAX_PROOF_FILE)  # bytes of an entry and its proof in a list, escaped
Base = Mapping[str, int]


class Releases:
    """Publishes packs in one commons, by its steps."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def publish(
        self, pack: Pack, ring: str, *, bench: Bench = _NO_BENCH, signer: RoleSigner | None = None
    ) -> Published:
        """Publish a pack in a ring; `signer` in place of the key file of its role (a reviewer's own key).

        The same pack again gives the same answer. `bench` is what the ring's gate measures with.
        Raises: BadPack, GateRefused, BadKey, UnfinishedPublish, NoQuorum, BadProof; what `append` raises.
        """
        known_ring(ring)
        path, role = pack_path(ring, pack.name, pack.version), role_of_pack(ring, pack.kind)

        def begin(base: Base) -> tuple[Item, ...]:
            if ring in NEEDS_PROMOTION:
                fix = "publish it in beta, have it reviewed there, and promote it"
                raise GateRefused(f"comes to {ring} by promotion only", where=pack.name, fix=fix)
            key = self._key_of(role, base, signer)
            self._demand_newer(pack, ring, base)
            gate = self._gate(pack, ring, base, bench, key)
            return gate, self.steps.item("pack", pack.name, pack.version, ring, pack.data, path, role, key)

        return self.steps.run((("pack", f"{ring}/{path}", pack.data),), begin, signer)

    def review(self, name: str, ring: str, verdict: str, key: Ed25519Signer, *, note: str = "") -> Published:
        """Log a reviewer's verdict, "approve" or "reject", on what is out in a ring.

        Raises: BadPack, BadKey (no reviewer's, or the author's), BadRecord; and as `publish`.
        """
        base = self.steps.seen()
        pack = self._out(name, ring, base)
        review = Review(pack.digest, name, pack.version, ring, verdict, note)
        parse_review(review.data, "review")
        if key.verifier.text == pack.author_key:
            raise BadKey("is the pack author's own", where=key.verifier.text, fix="another reviewer has to look at it")
        if self._reviewers(base).by_key(key.verifier.text, self.steps.clock.now_us()) is None:
            raise BadKey("is no reviewer's key", where=key.verifier.text, fix="list it with interlock mesh reviewers")

        def begin(_: Base) -> tuple[Item, ...]:
            return (self.steps.record_item("review", name, pack.version, ring, review.data, key),)

        return self.steps.run((("review", f"{ring}/", review.data),), begin, None)

    def promote(
        self,
        name: str,
        version: int,
        from_ring: str,
        ring: str,
        *,
        bench: Bench = _NO_BENCH,
        signer: RoleSigner | None = None,
    ) -> Published:
        """Bring the version that is out in a ring on to a later one. Raises: as `publish`; BadState, BadRecord."""
        if RINGS.index(known_ring(from_ring)) >= RINGS.index(known_ring(ring)):
            raise GateRefused(f"does not go from {from_ring} to {ring}", where=name, fix="name a later ring with --to")
        seen = self.steps.seen()
        pack = self._version(name, version, from_ring, seen)
        path, role = pack_path(ring, name, version), role_of_pack(ring, pack.kind)

        def begin(base: Base) -> Begun:
            key = self._key_of(role, base, signer)
            self._demand_newer(pack, ring, base)
            self._demand_standing(pack, (from_ring, ring), base)
            approvals = self._approvals(pack, from_ring, ring, base)
            gate = self._gate(pack, ring, base, bench, key)
            gate_leaf = Evidence(gate.entry.data, b"", gate.data).leaf
            leaves = tuple(row.leaf for row in approvals)
            record = Promotion(pack.digest, name, version, from_ring, ring, gate_leaf, leaves).data
            promoted = self.steps.record_item("promote", name, version, ring, record, key.key)
            last = self.steps.item("pack", name, version, ring, pack.data, path, role, key)
            return Begun((gate, promoted, last), cites=tuple(row.said("review").sha256 for row in approvals))

        return self.steps.run((("pack", f"{ring}/{path}", pack.data),), begin, signer)

    def revoke(
        self,
        name: str,
        version: int | None,
        *,
        why: str,
        rules: tuple[str, ...] = (),
        removal: bool = False,
        key: Ed25519Signer | None = None,
    ) -> Published:
        """Take a version back in every ring where it lies, or rules of it; with no version every one that is out.

        Versions that are yet to come are never among them: each is named. `key` is the author's; without it the rings'
        own keys say so. A removal takes the signatures of those who hold targets as well.
        Raises: BadPack (no such version or rule), BadKey, BadRecord, NeedsHolders; and as `publish`.
        """
        if removal and key is not None:
            fix = "leave --removal away, or have the commons say so without --key"
            raise BadKey("is an author's, who may not take out what others have in force", where="--removal", fix=fix)
        packs = self._taken_back(name, version, rules, self.steps.seen())
        scope = "removal" if removal else "activation"
        records = {
            place: Revocation(pack.digest, name, pack.version, place[0], rules, why, scope).data
            for place, pack in packs.items()
        }
        for place, pack in packs.items():
            parse_revocation(records[place], "revocation")
            if key is not None and key.verifier.text != pack.author_key:
                raise BadKey("is not the author's key of this pack", where=key.verifier.text)

        def begin(now: Base) -> Begun:
            self._demand_news(records, removal=removal, base=now)
            items = tuple(
                self.steps.record_item("revoke", name, of, ring, data, key or self.steps.key(ring).key)
                for (ring, of), data in records.items()
            )
            rings = tuple(dict.fromkeys(ring for ring, _ in records))
            return Begun(items, roles=(*rings, "targets") if removal else rings)

        last = next(reversed(records))
        return self.steps.run((("revoke", f"{last[0]}/", records[last]),), begin, None)

    def set_reviewers(self, reviewers: Reviewers) -> Published:
        """Say who reviews, and how many stable needs. Raises: BadRecord; and as `publish`."""
        data = parse_reviewers(reviewers.data, REVIEWERS_PATH).data
        wanted = (("targets", REVIEWERS_PATH, data),)
        return self.steps.run(wanted, lambda _: Begun(loose=(Loose(REVIEWERS_PATH, "targets", data),)), None)

    def reviewers(self) -> Reviewers:
        """Who reviews, or is to once targets' holders sign. Raises: BadState, where nobody is listed; BadRecord."""
        data = self.steps.wanted("targets", REVIEWERS_PATH, self.steps.seen())
        return self._reviewers(self.steps.seen()) if data is None else parse_reviewers(data, REVIEWERS_PATH)

    def newest(self, name: str, ring: str) -> int:
        """The version that is out in a ring. Raises: BadPack, where none is."""
        return self._out(name, ring, self.steps.seen()).version

    # --- what is out

    def _channel(self, ring: str, base: Base) -> Channel:
        path = channel_path(ring)
        data = self.steps.repository.target(ring, base[ring], path)
        return {} if data is None else parse_channel(data, ring, where=path)

    def _found(self, name: str, version: int, ring: str, base: Base) -> Pack | None:
        """A version as it lies in a ring, newest or not; None where there is none."""
        path, role = pack_path(ring, name, version), role_of_pack(ring, kind_of(name))
        data = self.steps.repository.target(role, base[role], path)
        return None if data is None else parse_pack(data, where=path)

    def _taken_back(
        self, name: str, version: int | None, rules: tuple[str, ...], base: Base
    ) -> dict[tuple[str, int], Pack]:
        """Each ring and version that is meant: this one, or all that have these rules. Raises: BadPack."""
        found: dict[tuple[str, int], Pack] = {}
        for ring in RINGS:
            role, start = role_of_pack(ring, kind_of(name)), f"packs/{ring}/{name}/"
            paths = self.steps.repository.paths(role, base[role])
            names = [p.removeprefix(start) for p in paths if p.startswith(start) and p.endswith(".json")]
            for number in sorted(int(one.removesuffix(".json")) for one in names):
                pack = self._found(name, number, ring, base) if version in (None, number) else None
                if pack is not None:
                    found[ring, number] = pack
        if not found:
            told = "is in no ring" if version is None else f"has no version {version} in any ring"
            raise BadPack(told, where=name, fix="check the name and the number")
        held = {place: set(rules) - {doc.id for doc in pack.rules} for place, pack in found.items()}
        unknown = min(held.values(), key=len)
        if unknown:
            raise BadPack("has no such rule", where=f"{name}: {min(unknown)}", fix="check its id")
        return {place: pack for place, pack in found.items() if not held[place]}

    def _out(self, name: str, ring: str, base: Base) -> Pack:
        """What is out in a ring under a name. Raises: BadPack."""
        out = self._channel(known_ring(ring), base).get(name)
        found = None if out is None else self._found(name, out[0], ring, base)
        if found is None:
            raise BadPack(f"is not out in {ring}", where=name, fix="check the name and the ring")
        return found

    def _version(self, name: str, version: int, ring: str, base: Base) -> Pack:
        """What is out in a ring, if it is this version. Raises: BadPack."""
        pack = self._out(name, ring, base)
        if pack.version != version:
            raise BadPack(f"is out in {ring} in version {pack.version}, not {version}", where=name)
        return pack

    def _reviewers(self, base: Base) -> Reviewers:
        data = self.steps.repository.target("targets", base["targets"], REVIEWERS_PATH)
        if data is None:
            raise BadState("is not there", where=REVIEWERS_PATH, fix="list reviewers with interlock mesh reviewers")
        return parse_reviewers(data, REVIEWERS_PATH)

    # --- what is demanded

    def _key_of(self, role: str, base: Base, signer: RoleSigner | None) -> RoleSigner:
        key = signer or self.steps.key(role)
        self.steps.repository.demand_key(role, base["targets"], key)
        return key

    def _gate(self, pack: Pack, ring: str, base: Base, bench: Bench, key: RoleSigner) -> Item:
        """The gate's record, as an item. Raises: GateRefused."""
        warnings: dict[str, Pack] = {}
        for of in ("stable", "beta"):
            for name in self._channel(of, base):
                if kind_of(name) != "warning" or name in (pack.name, *warnings):
                    continue
                out = self._out(name, of, base)
                if not self._is_taken_back(out, of, base):
                    warnings[name] = out
        data = gate_record(pack, ring, bench, list(warnings.values()), self.steps.clock.now_us())
        return self.steps.record_item("gate", pack.name, pack.version, ring, data, key.key)

    def _demand_newer(self, pack: Pack, ring: str, base: Base) -> None:
        out = self._channel(ring, base).get(pack.name)
        if out is not None and pack.version <= out[0]:
            raise BadPack(
                f"has version {pack.version}, and {out[0]} is out in {ring}",
                where=pack.name,
                fix="give it a higher version",
            )

    def _demand_standing(self, pack: Pack, rings: tuple[str, ...], base: Base) -> None:
        """Raises: BadPack, for what was taken back in one of the rings, whole or in part."""
        if any(self._is_taken_back(pack, ring, base) for ring in rings):
            raise BadPack("was taken back", where=f"{pack.name} version {pack.version}", fix="publish anew")

    def _is_taken_back(self, pack: Pack, ring: str, base: Base) -> bool:
        rows = parse_evidence_list(self._listed(ring, revoked_path(ring), base), revoked_path(ring))
        return any(parse_revocation(row.record, ring).pack == pack.digest for row in rows)

    def _listed(self, role: str, path: str, base: Base) -> bytes:
        return self.steps.wanted(role, path, base) or b"[]"

    def _demand_news(self, records: Mapping[tuple[str, int], bytes], *, removal: bool, base: Base) -> None:
        """Raises: BadRecord, for what was taken back just so already, or where a list would outgrow what nodes read."""
        said, sizes = 0, dict.fromkeys([REMOVALS_PATH, *map(revoked_path, RINGS)], 0)
        for (ring, _), record in records.items():
            for role, path in [(ring, revoked_path(ring)), *([("targets", REMOVALS_PATH)] if removal else [])]:
                data = self._listed(role, path, base)
                sizes[path] = max(sizes[path], len(data)) + _EVIDENCE_ROOM + 2 * len(record)
                if sizes[path] > MAX_EVIDENCE:
                    raise BadRecord(f"has no room: nodes read {MAX_EVIDENCE} bytes", where=path, fix="revoke less")
                said += any(row.record == record for row in parse_evidence_list(data, path))
        if said == len(records) * (2 if removal else 1):
            rings = ", ".join(dict.fromkeys(ring for ring, _ in records))
            raise BadRecord("is taken back just so already", where=rings)

    def _approvals(self, pack: Pack, from_ring: str, ring: str, base: Base) -> list[Evidence]:
        """The newest approval of each reviewer. Raises: GateRefused, where one rejects it or they are too few."""
        if ring not in NEEDS_PROMOTION:
            return []
        listed = self._reviewers(base)
        newest: dict[str, tuple[int, str, Evidence]] = {}
        for evidence, review in self._reviews(pack, from_ring):
            entry = evidence.said("review")
            seen = seen_us(entry, parse_proof(evidence.proof).verify(evidence.entry, self.steps.policy))
            name = listed.by_key(entry.by, seen)
            if name is not None and entry.by != pack.author_key and (name not in newest or newest[name][0] < entry.at):
                newest[name] = (entry.at, review.verdict, evidence)
        against = sorted(name for name, (_, verdict, _) in newest.items() if verdict == "reject")
        if against:
            raise GateRefused(f"is rejected by {against[0]}", where=pack.name, fix="publish a version that mends it")
        if len(newest) < listed.threshold:
            told = f"is approved by {len(newest)} reviewers, and {ring} needs {listed.threshold}"
            fix = f"have it reviewed: interlock mesh review {pack.name}@{from_ring} --key FILE --approve"
            raise GateRefused(told, where=pack.name, fix=fix)
        return [evidence for _, (_, _, evidence) in sorted(newest.items())]

    def _reviews(self, pack: Pack, ring: str) -> list[tuple[Evidence, Review]]:
        """Every review that was logged of this very pack in a ring."""
        found = []
        for path in sorted((self.steps.repository.public / "records").glob("*.json")):
            try:
                review = parse_review(read_bounded(path, MAX_RECORD), path.name)
            except BadRecord:
                continue
            if (review.pack, review.ring) == (pack.digest, ring):
                found.append((self.steps.record(path.stem), review))
        return found
