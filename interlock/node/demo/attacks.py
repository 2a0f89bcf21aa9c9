"""Three attacks on the fourth node, each from a server that checks nothing; each has to be refused by its own error.

an old mirror    the whole state of before the indicators, signed and logged, but older than what the node saw
past the log     a new version signed with stolen online keys, without a log entry
a forked log     a second history under the log's own key
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

from interlock.base.files import replace
from interlock.commons.channel import dump_channel, parse_channel
from interlock.commons.layout import channel_path, pack_path
from interlock.commons.pack import Pack
from interlock.commons.repository import Repository
from interlock.commons.signers import load_keys, read_key
from interlock.node.demo.acts import FOURTH, PACK, Acts, Evidence, builtin_pack
from interlock.node.demo.cast import CommandFailed
from interlock.node.demo.stage import ORIGIN
from interlock.transparency.log import open_log
from interlock.transparency.note import NoteSigner

__all__ = ["Attacks"]

_OLD: Final = "old"
_UNLOGGED: Final = "unlogged"
_FORK: Final = "fork"


class Attacks:
    """Prepares the folders of the evil mirror and leads the node to them."""

    def __init__(self, acts: Acts) -> None:
        self._acts = acts
        self._stage = acts.stage

    def keep_old_state(self) -> None:
        """What the mirror serves now, for later."""
        shutil.copytree(self._stage.dir("mirror") / "public", self._evil(_OLD))

    def serve(self) -> None:
        """Start the evil mirror."""
        stage = self._stage
        folder = str(stage.dir("evil"))
        stage.cast.start("evil", [folder], stage.at["evil"], module="interlock.node.demo.evil")

    def old_mirror(self) -> Evidence:
        """A mirror that serves an old pack."""
        return self._refused(_OLD, "rollback")

    def past_the_log(self) -> Evidence:
        """A mirror that serves a pack outside the log, signed with stolen keys."""
        stage, home = self._stage, self._stage.dir("stolen")
        shutil.copytree(stage.dir("commons"), home)
        _sign_past_the_log(home, builtin_pack(2), stage.clock.now_us())
        shutil.copytree(home / "public", self._evil(_UNLOGGED))
        shutil.copytree(stage.dir("mirror") / "public" / "log", self._evil(_UNLOGGED) / "log")
        return self._refused(_UNLOGGED, "not-logged")

    def forked_log(self) -> Evidence:
        """A log that shows this node another history; both notes are kept as evidence."""
        stage = self._stage
        shutil.copytree(stage.dir("mirror") / "public", self._evil(_FORK))
        shutil.rmtree(self._evil(_FORK) / "log")
        signer = NoteSigner(ORIGIN, read_key(stage.dir("log") / "log.key"))
        with open_log(stage.dir("forked"), signer) as log:
            log.append([b'{"another":"history %d"}' % i for i in range(50)])
            log.publish(log.integrate())
        shutil.copytree(stage.dir("forked") / "public", self._evil(_FORK) / "log")
        found = self._refused(_FORK, "split-view")
        files = list((stage.home(FOURTH) / "evidence").glob("*.json"))
        if len(files) != 1:
            raise CommandFailed(f"left {len(files)} evidence files, expected one", where="the forked log")
        return found | {"evidence": files[0].name}

    def _evil(self, name: str) -> Path:
        return self._stage.dir("evil") / name

    def _refused(self, name: str, code: str) -> Evidence:
        """Lead the node to the evil mirror: it must refuse with this code, and guard as before."""
        stage = self._stage
        before = (stage.home(FOURTH) / "live.json").read_bytes()
        config = stage.dir(FOURTH) / f"{name}.toml"
        text = stage.config(FOURTH).read_text(encoding="utf-8")
        evil = f"{stage.url('evil')}/{name}"
        replace(config, text.replace(stage.url("mirror"), evil).encode("utf-8"))
        stage.cast.run(["mesh", "update", "--config", str(config)], expect=1)
        trouble = json.loads((stage.home(FOURTH) / "status.json").read_bytes())["trouble"]
        if trouble["code"] != code:
            raise CommandFailed(f"was refused as {trouble['code']}, expected {code}", where=name)
        if (stage.home(FOURTH) / "live.json").read_bytes() != before or self._acts.calls_to_the_host(FOURTH) != {
            "blocked"
        }:
            raise CommandFailed("the last good policy is not in force", where=name)
        return {"refused": code, "said": trouble["line"].partition("; ")[0], "last good": "in force"}


def _sign_past_the_log(home: Path, pack: Pack, now_us: int) -> None:
    """What a thief of the ring's and the online keys can do: everything but a log entry."""
    repository = Repository(home / "public")
    keys, base = load_keys(home / "keys", ("stable", "snapshot", "timestamp")), repository.versions()
    channel = repository.target("stable", base["stable"], channel_path("stable"))
    assert channel is not None
    named = parse_channel(channel, "stable", where="channel")
    files = {pack_path("stable", pack.name, pack.version): pack.data}
    files[channel_path("stable")] = dump_channel("stable", {**named, PACK: (pack.version, pack.digest)})
    repository.add_targets("stable", base["stable"] + 1, files, keys["stable"], now_us)
    repository.snapshot(base["snapshot"] + 1, {"stable": base["stable"] + 1}, keys["snapshot"], now_us)
    repository.timestamp(base["timestamp"] + 1, base["snapshot"] + 1, keys["timestamp"], now_us)
