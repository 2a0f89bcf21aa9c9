"""DAP over HTTP: the leader's and the helper's Starlette applications.

Handlers translate: path, token, media type and body in; status, Location and body or problem document out. The work
is in `dap.leader`, `dap.helper` and `dap.driver`, and runs in threads. Paths are those of draft-ietf-ppm-dap-18,
appendix A, below the path of the aggregator's own URL (`prefix`).

    both    GET hpke_config                                                       for anyone
    leader  POST tasks/{task}/reports                 for members; for anyone where reports prove membership
            POST tasks/{task}/interlock/fates; ours, not DAP's                    as reports
            POST tasks/{task}/collection_jobs; GET, DELETE .../{id}               for collectors
    helper  POST tasks/{task}/aggregation_jobs; GET, POST, DELETE .../{id}        for leaders
            POST tasks/{task}/aggregate_shares; GET, DELETE .../{id}              for leaders
            POST tasks/{task}/interlock/repairs; ours, not DAP's                  for leaders

Reports and aggregation jobs, which are many and large, have a short way in (`posts`), which ends in the same functions.
A token is good for the tasks that it was made for; DAP has no error type for others (3.6), and the answer is 403.
A DELETE ends a collection job that still waits, lets an aggregation job go of which no report is in time yet, and else
deletes nothing: what is kept is what replays and second collections are refused by.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from interlock.base.errors import InterlockError
from interlock.dap.collector import WHILE_WAITING
from interlock.dap.driver import Driver
from interlock.dap.fates import FATES
from interlock.dap.helper import Helper, Resource
from interlock.dap.leader import Leader
from interlock.dap.messages import TASK_ID_SIZE, media_type, message_of
from interlock.dap.problems import MEDIA_TYPE, DapProblem, ProblemType, from_b64url
from interlock.dap.repair import REPAIRS
from interlock.node.http import BadBody, body_of
from interlock.node.posts import Begin, Head, Posts
from interlock.node.roles.work import DRIVE_EVERY_S, Kick, driving
from interlock.node.tokens import NotAllowed, TokenTable

__all__ = ["BODY_LIMIT", "helper_app", "leader_app"]

BODY_LIMIT: Final = 64 << 20  # bytes of a request
FATES_LIMIT: Final = 1 << 17  # of one with questions, which anyone may send where reports prove membership
HPKE_CACHE_S: Final = 43_200  # keys change rarely; a replaced one opens for a day at least, twice this long (4.4.1)
RETRY_AFTER_S: Final = 1
_RESOURCE_ID_SIZE: Final = 16
_log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]
_Act = Callable[[bytes], Coroutine[None, None, Response]]  # what is done with a body


def leader_app(
    leader: Leader,
    driver: Driver,
    *,
    members: TokenTable,
    collectors: TokenTable,
    prefix: str = "",
    drive_every_s: float = DRIVE_EVERY_S,
    close: Callable[[], None] = lambda: None,
) -> Starlette:
    """The leader; its driver runs in the background while the application lives. `close` is called at the end."""
    kick = Kick()

    def sender(authorization: str | None, task_id: bytes) -> str | None:
        """Who sends reports or asks about them, where the task does not have that proved. Raises: NotAllowed."""
        open_to_all = False
        with contextlib.suppress(InterlockError):  # a task that cannot be read is refused below, to those who may ask
            open_to_all = leader.proves_membership(task_id)
        return None if open_to_all else members.name_of(authorization, task_id)

    async def upload(task_id: bytes, member: str | None, body: bytes) -> Response:
        errors = await run_in_threadpool(leader.process_upload, task_id, body, member)
        kick.set()
        return Response(errors, media_type=media_type("upload-errors") if errors else None)

    async def reports(request: Request) -> Response:
        task_id = _task_id(request)
        member = sender(request.headers.get("authorization"), task_id)
        return await upload(task_id, member, await _body(request, "upload-req"))

    async def fates(request: Request) -> Response:
        task_id = _task_id(request)
        member = sender(request.headers.get("authorization"), task_id)
        body = await _body(request, "fate-req", FATES_LIMIT)
        answer = await run_in_threadpool(leader.process_fates, task_id, body, member)
        return Response(answer, media_type=media_type("fate-resp"))

    async def create(request: Request) -> Response:
        _bearer(collectors, request)
        task_id, body = _task_id(request), await _body(request, "collection-job-req")
        found = await run_in_threadpool(leader.process_collection_init, task_id, body)
        kick.set()
        return _created(found, "collection-job-resp")

    async def look(request: Request) -> Response:
        _bearer(collectors, request)
        ids = _task_id(request), _resource_id(request)
        if request.method == "DELETE":
            taken = request.url.query != WHILE_WAITING
            await run_in_threadpool(leader.give_up_collection, *ids, taken=taken)
            return Response(status_code=204)
        found = await run_in_threadpool(leader.collection_job, *ids)
        return _representation(request, found, "collection-job-resp")

    jobs = "/tasks/{task}/collection_jobs"
    routes = [
        _route("/hpke_config", _configs(leader.hpke_configs), "GET"),
        _route("/tasks/{task}/reports", reports, "POST"),
        _route("/".join(("/tasks/{task}", *FATES)), fates, "POST"),
        _route(jobs, create, "POST"),
        _route(jobs + "/{id}", look, "GET", "DELETE"),
    ]

    def uploading(task_id: bytes, authorization: str | None) -> _Act:
        return functools.partial(upload, task_id, sender(authorization, task_id))

    posts = _posts(prefix, "reports", "upload-req", uploading)
    return _application(routes, prefix, functools.partial(driving, driver, kick, drive_every_s), posts, close)


def helper_app(
    helper: Helper, *, leaders: TokenTable, prefix: str = "", close: Callable[[], None] = lambda: None
) -> Starlette:
    """The helper. `close` is called at the end."""

    async def init_job(task_id: bytes, body: bytes) -> Response:
        found = await run_in_threadpool(helper.process_aggregation_init, task_id, body)
        return _created(found, "aggregation-job-resp")

    async def create_job(request: Request) -> Response:
        _bearer(leaders, request)
        return await init_job(_task_id(request), await _body(request, "aggregation-job-init-req"))

    async def look_at_job(request: Request) -> Response:
        _bearer(leaders, request)
        ids = _task_id(request), _resource_id(request)
        if request.method == "POST":
            body = await _body(request, "aggregation-job-continue-req")
            await run_in_threadpool(helper.process_aggregation_continue, *ids, body)
        if request.method == "DELETE":
            await run_in_threadpool(helper.delete_aggregation_job, *ids)
            return Response(status_code=204)
        step = request.query_params.get("step")
        found = await run_in_threadpool(helper.aggregation_job, *ids, step)
        return _representation(request, found, "aggregation-job-resp")

    async def create_share(request: Request) -> Response:
        _bearer(leaders, request)
        task_id, body = _task_id(request), await _body(request, "aggregate-share-req")
        found = await run_in_threadpool(helper.process_aggregate_share, task_id, body)
        return _created(found, "aggregate-share")

    async def look_at_share(request: Request) -> Response:
        _bearer(leaders, request)
        found = await run_in_threadpool(helper.aggregate_share, _task_id(request), _resource_id(request))
        return _representation(request, found, "aggregate-share")

    async def create_repair(request: Request) -> Response:
        leader = _bearer(leaders, request)
        task_id, body = _task_id(request), await _body(request, "repair-req")
        found = await run_in_threadpool(helper.process_repair, task_id, body, leader)
        return _representation(request, found, "repair-resp")

    jobs, shares = "/tasks/{task}/aggregation_jobs", "/tasks/{task}/aggregate_shares"
    routes = [
        _route("/hpke_config", _configs(helper.hpke_configs), "GET"),
        _route(jobs, create_job, "POST"),
        _route(jobs + "/{id}", look_at_job, "GET", "POST", "DELETE"),
        _route(shares, create_share, "POST"),
        _route(shares + "/{id}", look_at_share, "GET", "DELETE"),
        _route("/".join(("/tasks/{task}", *REPAIRS)), create_repair, "POST"),
    ]

    def beginning(task_id: bytes, authorization: str | None) -> _Act:
        leaders.name_of(authorization, task_id)
        return functools.partial(init_job, task_id)

    posts = _posts(prefix, "aggregation_jobs", "aggregation-job-init-req", beginning)
    return _application(routes, prefix, contextlib.nullcontext, posts, close)


def _application(
    routes: list[Route],
    prefix: str,
    working: Callable[[], contextlib.AbstractAsyncContextManager[None]],
    posts: Posts,
    close: Callable[[], None],
) -> Starlette:
    """What a role answers, while it is `working`."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            async with working():
                yield
        finally:
            close()

    path = _below(prefix)
    application = Starlette(routes=[Mount(path, routes=routes)] if path else routes, lifespan=lifespan)
    application.state.posts = posts
    return application


def _below(prefix: str) -> str:
    return "/" + prefix.strip("/") if prefix.strip("/") else ""


def _posts(prefix: str, resource: str, message: str, admitted: Callable[[bytes, str | None], _Act]) -> Posts:
    """The short way for a resource of a task; `admitted` gets its id and who asks, and says what a body is for."""
    path = re.compile(re.escape(_below(prefix)) + r"/tasks/([0-9A-Za-z_-]+)/" + resource)

    def take(head: Head) -> Begin | None:
        found = path.fullmatch(head.path)
        task_id = from_b64url(found[1], TASK_ID_SIZE) if found else None
        if task_id is None or message_of(head.content_type) != message:
            return None
        try:
            act = admitted(task_id, head.authorization)
        except InterlockError:
            return None
        return lambda body: asyncio.ensure_future(act(body))

    return Posts(take, BODY_LIMIT, _refused)


def _route(path: str, handler: Handler, *methods: str) -> Route:
    """A route whose InterlockErrors become problem documents."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except InterlockError as e:
            return _refused(e)

    return Route(path, endpoint, methods=list(methods))


def _refused(e: InterlockError) -> Response:
    """An error as a problem document: the one table from error to status."""
    if isinstance(e, DapProblem):
        return Response(e.document(), e.status, media_type=MEDIA_TYPE)
    if isinstance(e, NotAllowed):
        problem = DapProblem(None, e.what, status=e.status)
        return Response(problem.document(), e.status, {"www-authenticate": "Bearer"}, MEDIA_TYPE)
    if isinstance(e, BadBody):
        return Response(DapProblem(None, e.what, status=e.status).document(), e.status, media_type=MEDIA_TYPE)
    _log.error("a request failed: %s", e)
    problem = DapProblem(None, "cannot be served now", status=503)
    return Response(problem.document(), 503, {"retry-after": str(RETRY_AFTER_S)}, MEDIA_TYPE)


def _configs(encoded: Callable[[], bytes]) -> Handler:
    async def configs(request: Request) -> Response:
        headers = {"cache-control": f"max-age={HPKE_CACHE_S}"}
        return Response(encoded(), headers=headers, media_type=media_type("hpke-config-list"))

    return configs


def _bearer(table: TokenTable, request: Request) -> str:
    """Who asks, with a token that is good for the task of the request's path. Raises: NotAllowed."""
    task_id = from_b64url(request.path_params["task"], TASK_ID_SIZE)
    return table.name_of(request.headers.get("authorization"), task_id)


def _task_id(request: Request) -> bytes:
    task_id = from_b64url(request.path_params["task"], TASK_ID_SIZE)
    if task_id is None:
        raise DapProblem(ProblemType.UNRECOGNIZED_TASK, "this is not a task id")
    return task_id


def _resource_id(request: Request) -> bytes:
    found = from_b64url(request.path_params["id"], _RESOURCE_ID_SIZE)
    if found is None:
        raise DapProblem(None, "this is not the id of a resource", status=404)
    return found


async def _body(request: Request, message: str, limit: int | None = None) -> bytes:
    """The request's body, of the one media type that belongs here. Raises: DapProblem, BadBody."""
    if message_of(request.headers.get("content-type", "")) != message:
        raise DapProblem(None, f"the media type that belongs here is {media_type(message)}", status=415)
    return await body_of(request, BODY_LIMIT if limit is None else limit)


def _created(found: Resource, message: str) -> Response:
    response = _shown(found, message, status=201)
    # the path that the task's own URL has, which a proxy in front may have cut
    response.headers["location"] = urlsplit(found.place).path
    return response


def _representation(request: Request, found: Resource, message: str) -> Response:
    return Response(status_code=204) if request.method == "DELETE" else _shown(found, message)


def _shown(found: Resource, message: str, status: int = 200) -> Response:
    """A resource; an empty one says: not ready, ask again."""
    if not found.body:
        return Response(status_code=202, headers={"retry-after": str(RETRY_AFTER_S)})
    return Response(found.body, status, media_type=media_type(message))
