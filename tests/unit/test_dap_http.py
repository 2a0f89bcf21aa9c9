"""DAP's resources over real HTTP on loopback: paths, media types, headers, tokens, caps and problem documents."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request

from interlock.base.clock import SystemClock
from interlock.base.fetch import TooLarge, Unreachable, http_client
from interlock.dap.batches import query_for, selector_for
from interlock.dap.client import upload
from interlock.dap.collector import Collector
from interlock.dap.drafts import ReportError
from interlock.dap.jobs import AggregationJobContinueReq, CollectionJobReq
from interlock.dap.messages import HpkeConfigList, Interval, media_type
from interlock.dap.problems import ProblemType, problem_type, to_b64url
from interlock.dap.repair import REPAIRS, JobPart, RepairReq
from interlock.dap.transport import Reply
from interlock.node.http import body_of
from interlock.node.parties import HttpExchange
from interlock.node.roles import aggregate
from tests.unit.dap_http import TOKENS, Deployment, free_socket, serving, table
from tests.unit.dap_world import VDAF, World, bits


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder: Path = tmp_path_factory.mktemp("dap")
    with contextlib.ExitStack() as stack:
        yield Deployment(folder, stack)


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with http_client() as client:
        yield client


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[name]}"}


def typed(message: str, name: str) -> dict[str, str]:
    return {"content-type": media_type(message), **bearer(name)}


def now_about(deployment: Deployment) -> Interval:
    return Interval(deployment.task.time_of(SystemClock().now_us()) - 1, 3)


def test_three_members_report_over_http_and_the_collector_reads_the_sums(deployment: Deployment) -> None:
    for place, member in enumerate(("acme", "globex", "initech")):
        report = deployment.report(bits(0, place))
        assert upload(deployment.exchange(member), deployment.task, [report]) == {}
        assert upload(deployment.exchange(member), deployment.task, [report]) == {}, "a retry is a success"
    second = upload(deployment.exchange("acme"), deployment.task, [deployment.report(bits(0))])
    assert list(second.values()) == [ReportError.REPORT_DROPPED], "one report a member"
    found = deployment.collect(now_about(deployment))
    assert (found.report_count, found.sums[:4]) == (3, (3, 1, 1, 0))
    assert deployment.collect(now_about(deployment)) == found, "asking again finds the same job"


def test_keys_are_for_anyone_and_may_be_cached(deployment: Deployment, http: httpx.Client) -> None:
    for url in (deployment.leader_url, deployment.helper_url):
        response = http.get(url + "/hpke_config")
        assert response.headers["content-type"] == "application/ppm-dap;message=hpke-config-list"
        assert response.headers["cache-control"] == "max-age=43200"
        assert len(HpkeConfigList.decode(response.content).configs) == 1


def test_what_goes_the_short_way_is_answered_as_the_general_way_answers_it(
    deployment: Deployment, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, general = deployment.task, list[bytes]()

    async def counted(request: Request, limit: int) -> bytes:
        general.append(await body_of(request, limit))
        return general[-1]

    monkeypatch.setattr(aggregate, "body_of", counted)
    report = deployment.report(bits(0)).encode()
    uploads, jobs = task.leader_resource("reports"), task.helper_resource("aggregation_jobs")
    elsewhere = uploads.replace(to_b64url(task.task_id), to_b64url(b"?" * 32))
    refused = [(uploads, "upload-req", "collector", report), (jobs, "aggregation-job-init-req", "acme", b"?")]
    refused += [(uploads, "aggregation-job-init-req", "acme", report), (jobs, "upload-req", "leader", b"?")]
    taken = [(uploads, "upload-req", "globex", body) for body in (report, report[:-1], b"?", report * 3)]
    taken += [(elsewhere, "upload-req", "acme", report), (jobs, "aggregation-job-init-req", "leader", b"?" * 70_000)]
    for url, message, name, body in refused + taken:
        before = len(general)
        first = http.post(url, headers=typed(message, name), content=body)
        short = len(general) == before
        second = http.post(url, headers={**typed(message, name), "x-way": "general"}, content=body)
        assert (first.status_code, first.content) == (second.status_code, second.content)
        fields = [{k: v for k, v in found.headers.items() if k != "date"} for found in (first, second)]
        assert fields[0] == fields[1]
        if (url, message, name, body) in taken:
            assert short, "and nothing was read the general way"
            assert len(general) == before + 1


def test_without_the_right_token_nothing_is_done(deployment: Deployment, http: httpx.Client) -> None:
    task = deployment.task
    for url, message, wrong in (
        (task.leader_resource("reports"), "upload-req", "collector"),
        (task.leader_resource("collection_jobs"), "collection-job-req", "acme"),
        (task.helper_resource("aggregation_jobs"), "aggregation-job-init-req", "collector"),
        (task.helper_resource("aggregate_shares"), "aggregate-share-req", "acme"),
    ):
        nobody = http.post(url, headers={"content-type": media_type(message)}, content=b"")
        assert (nobody.status_code, nobody.headers["www-authenticate"]) == (401, "Bearer")
        other = http.post(url, headers=typed(message, wrong), content=b"")
        assert other.status_code == 403
        assert other.headers["content-type"] == "application/problem+json"
        assert problem_type(other.content) is None
        assert TOKENS[wrong] not in other.text
        assert http.get(url + "/" + to_b64url(bytes(16))).status_code == (401 if "reports" not in url else 404)


def test_another_media_type_is_refused(deployment: Deployment, http: httpx.Client) -> None:
    url = deployment.task.leader_resource("reports")
    for wrong in ("application/json", "application/ppm-dap;message=collection-job-req", ""):
        response = http.post(url, headers={**bearer("acme"), "content-type": wrong}, content=b"")
        assert (response.status_code, problem_type(response.content)) == (415, None)
    spaced = {**bearer("acme"), "content-type": "application/ppm-dap; message=upload-req; version=18"}
    assert http.post(url, headers=spaced, content=b"").status_code == 200


def test_a_waiting_collection_job_is_ended_by_delete_and_what_does_not_exist_is_404(
    deployment: Deployment, http: httpx.Client
) -> None:
    url = deployment.task.leader_resource("collection_jobs")
    body = CollectionJobReq(query_for(Interval(now_about(deployment).end + 2000, 1))).encode()
    made = http.post(url, headers=typed("collection-job-req", "collector"), content=body)
    place = httpx.URL(url).join(made.headers["location"])
    assert http.request("DELETE", place).status_code == 401
    assert http.request("DELETE", place, headers=bearer("acme")).status_code == 403
    assert http.request("DELETE", place, headers=bearer("collector")).status_code == 204
    ended = http.get(place, headers=bearer("collector"))
    assert (ended.status_code, problem_type(ended.content)) == (400, ProblemType.INVALID_BATCH_SIZE)
    again = http.post(url, headers=typed("collection-job-req", "collector"), content=body)
    assert (again.status_code, again.headers["location"]) == (202, made.headers["location"])
    nothing = f"{url}/{to_b64url(bytes(16))}"
    assert http.request("DELETE", nothing, headers=bearer("collector")).status_code == 404


def test_a_place_has_the_path_of_the_tasks_url_whatever_a_proxy_cuts(tmp_path: Path, http: httpx.Client) -> None:
    world = World(tmp_path)
    leader = aggregate.leader_app(world.leader, world.driver, members=table(), collectors=table("collector"))
    helper = aggregate.helper_app(world.helper, leaders=table("leader"))
    assert world.upload(*(world.report(bits(i)) for i in range(3))) == []
    world.drive()
    task = to_b64url(world.task.task_id)
    jobs = f"/tasks/{task}/collection_jobs", f"/tasks/{task}/aggregation_jobs"
    asked = CollectionJobReq(query_for(world.hour())).encode()
    requests = (
        (leader, jobs[0], typed("collection-job-req", "collector"), asked, 202),
        (helper, jobs[1], typed("aggregation-job-init-req", "leader"), world.post.sent[0][1], 201),
    )
    for app, path, headers, body, status in requests:
        sock = free_socket()
        with serving(app, sock):
            answer = http.post(f"http://127.0.0.1:{sock.getsockname()[1]}{path}", headers=headers, content=body)
        assert answer.status_code == status
        assert answer.headers["location"].startswith(f"/dap{path}/")
    world.close()


def test_a_continuation_is_one_step_too_far(deployment: Deployment, http: httpx.Client) -> None:
    url = deployment.task.helper_resource("aggregation_jobs")
    gone = f"{url}/{to_b64url(bytes(16))}"
    body = AggregationJobContinueReq(1, ()).encode()
    answer = http.post(gone, headers=typed("aggregation-job-continue-req", "leader"), content=body)
    assert (answer.status_code, problem_type(answer.content)) == (404, ProblemType.UNRECOGNIZED_AGGREGATION_JOB)
    wrong = http.post(gone, headers=typed("aggregation-job-init-req", "leader"), content=body)
    assert wrong.status_code == 415
    bad_job = http.post(url, headers=typed("aggregation-job-init-req", "leader"), content=b"")
    assert (bad_job.status_code, problem_type(bad_job.content)) == (400, ProblemType.INVALID_MESSAGE)


def test_a_body_over_the_cap_is_refused_by_its_announced_length_and_by_what_comes(
    deployment: Deployment, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = deployment.task.leader_resource("reports")
    where = urlsplit(url)
    fields = {"host": "h", **typed("upload-req", "acme"), "content-length": str(aggregate.BODY_LIMIT + 1)}
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=10) as sock:
        sock.sendall("\r\n".join([f"POST {where.path} HTTP/1.1", *map(": ".join, fields.items()), "", "?"]).encode())
        assert sock.recv(1 << 16).startswith(b"HTTP/1.1 413 "), "before all of it came"
    monkeypatch.setattr(aggregate, "BODY_LIMIT", 100)
    response = http.post(url, headers=typed("upload-req", "acme"), content=iter([bytes(101)]))
    assert (response.status_code, json.loads(response.content)["status"]) == (413, 413)


def test_problems_have_their_type_task_and_status(deployment: Deployment, http: httpx.Client) -> None:
    task = deployment.task
    malformed = http.post(task.leader_resource("reports"), headers=typed("upload-req", "acme"), content=b"x")
    assert malformed.status_code == 400
    document = json.loads(malformed.content)
    assert document["type"] == "urn:ietf:params:ppm:dap:error:invalidMessage"
    assert document["taskid"] == to_b64url(task.task_id)
    for unknown in (to_b64url(bytes(32)), "not-an-id"):
        url = f"{deployment.leader_url}/tasks/{unknown}/reports"
        response = http.post(url, headers=typed("upload-req", "acme"), content=b"")
        assert (response.status_code, problem_type(response.content)) == (404, ProblemType.UNRECOGNIZED_TASK)


def test_a_collection_job_has_a_place_is_not_ready_and_can_be_asked_for_again(
    deployment: Deployment, http: httpx.Client
) -> None:
    later = Interval(now_about(deployment).end + 1000, 1)
    url = deployment.task.leader_resource("collection_jobs")
    body = CollectionJobReq(query_for(later)).encode()
    first, again = (http.post(url, headers=typed("collection-job-req", "collector"), content=body) for _ in range(2))
    assert (first.status_code, first.content, first.headers["retry-after"]) == (202, b"", "1")
    assert first.headers["location"] == again.headers["location"]
    place = httpx.URL(url).join(first.headers["location"])
    assert str(place).startswith(url + "/")
    assert http.get(place, headers=bearer("collector")).status_code == 202
    assert http.delete(place, headers=bearer("collector")).status_code == 204
    assert http.get(place, headers=bearer("acme")).status_code == 403
    assert http.get(url + "/" + to_b64url(bytes(16)), headers=bearer("collector")).status_code == 404
    assert http.get(url + "/nonsense", headers=bearer("collector")).status_code == 404


def test_an_overlapping_query_is_refused_over_http(deployment: Deployment) -> None:
    hour = now_about(deployment)
    collector = deployment.exchange("collector")
    first = Interval(hour.end + 5000, 2)
    url = deployment.task.leader_resource("collection_jobs")
    for interval in (first, Interval(first.start + 1, 5)):
        body = CollectionJobReq(query_for(interval)).encode()
        reply = collector("POST", url, media_type("collection-job-req"), body)
    assert (reply.status, problem_type(reply.body)) == (400, ProblemType.BATCH_OVERLAP)


def test_an_exchange_bounds_what_it_reads_and_names_who_does_not_answer(deployment: Deployment) -> None:
    small = HttpExchange(limit=10)
    with pytest.raises(TooLarge):
        small("GET", deployment.leader_url + "/hpke_config")
    with pytest.raises(Unreachable, match="does not answer"):
        small("GET", "http://127.0.0.1:9/hpke_config")
    small.close()


def test_a_client_tells_a_refusal_from_a_server_in_between(deployment: Deployment) -> None:
    report = deployment.report(bits(1))
    with pytest.raises(Unreachable, match="403"):
        upload(deployment.exchange("leader"), deployment.task, [report])


def test_a_collector_follows_no_location_to_another_server(deployment: Deployment) -> None:
    for location in ("https://elsewhere.test/x", "//elsewhere.test/x", ""):

        def answer(method: str, url: str, media_type: str = "", body: bytes = b"", where: str = location) -> Reply:
            return Reply(202, location=where)

        collector = Collector(deployment.task, deployment.collector_key, VDAF, answer)
        with pytest.raises(Unreachable):
            collector.ask(now_about(deployment))


def test_repairs_are_for_leaders_and_a_message_of_our_own(deployment: Deployment, http: httpx.Client) -> None:
    """The resource beside DAP's: its token, its media type, its problems, and who is written down."""
    url = deployment.task.helper_resource(*REPAIRS)
    chosen = now_about(deployment)
    part = JobPart(bytes(16), 3, bytes(32))
    body = RepairReq(CollectionJobReq(query_for(chosen)), selector_for(chosen), (part,)).encode()
    assert media_type("repair-req") == "application/vnd.interlock.dap;message=repair-req"
    assert http.post(url, content=body, headers=typed("repair-req", "acme")).status_code == 403
    assert http.post(url, content=body, headers={"content-type": media_type("repair-req")}).status_code == 401
    wrong = {**typed("repair-req", "leader"), "content-type": "application/ppm-dap;message=repair-req"}
    assert http.post(url, content=body, headers=wrong).status_code == 415
    bad = http.post(url, content=b"\x02", headers=typed("repair-req", "leader"))
    assert problem_type(bad.content) is ProblemType.INVALID_MESSAGE
    small = http.post(url, content=body, headers=typed("repair-req", "leader"))
    assert problem_type(small.content) in (ProblemType.INVALID_BATCH_SIZE, ProblemType.BATCH_OVERLAP)
