"""What approvals need once something is to be approved: imported then, since most calls never get there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.engine.approvals import Approval, ApprovalRequest, Script
from interlock.engine.event import SensorEvent

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.engine.approvals_queue import ApprovalQueue
    from interlock.interceptors.hooks.approving import QueueSettings

__all__ = ["HookQueue", "scripts_of"]


def scripts_of(event: SensorEvent) -> tuple[Script, ...]:
    """The scripts that a call would run, as they are now. Raises: TooManyScripts."""
    from interlock.engine.approvals_scripts import named_scripts

    return named_scripts(event)


class HookQueue:
    """The approver of a hook: a queue that is opened at the first escalation. The agent above the hook is guarded."""

    def __init__(self, settings: QueueSettings) -> None:
        self._settings = settings
        self._queue: ApprovalQueue | None = None

    @property
    def queue_file(self) -> Path:
        """Where the requests lie, or will."""
        return self._settings.path

    def __call__(self, request: ApprovalRequest) -> Approval:
        """Raises: InterlockError, where the queue cannot be used."""
        from interlock.base.files import private_dir
        from interlock.engine.approvals_queue import ApprovalQueue
        from interlock.engine.processes import agent_above

        if self._queue is None:
            said = self._settings
            if said.makes_folder:
                private_dir(said.path.parent)
            self._queue = ApprovalQueue(
                said.path, wait_s=said.wait_s, use_s=said.use_s, four_eyes=said.four_eyes, guarded=agent_above
            )
        return self._queue(request)
