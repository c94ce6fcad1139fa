"""The service as an ASGI application."""

import asyncio
import hmac
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from usnrt._version import __version__
from usnrt.serve._answers import Options, as_csv, check_rows, options_of, predict_rows
from usnrt.serve._columns import read_csv
from usnrt.serve._errors import RequestError
from usnrt.serve._models import ModelStore, ServedModel
from usnrt.serve._monitor import RequestMonitor, model_lines
from usnrt.serve._openapi import openapi
from usnrt.whatif.page import what_if_page

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = logging.getLogger("usnrt.serve")
PAGE, POLICY = what_if_page()
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", POLICY.encode()),
]


@dataclass(frozen=True)
class Limits:
    """What a service accepts.

    Parameters
    ----------
    body_bytes : int
        Largest body of a request.
    rows : int
        Most rows of a request.
    explained_rows : int
        Most rows of a request with explanations or curves, which take long.
    seconds : float
        Longest time for a body to arrive, and for its predictions.
    waiting : int
        Most requests that wait for, or are in, a prediction; the others are answered that the service is busy.
    threads : int
        Predictions that run at the same time.
    neighbors : bool
        Whether explanations show similar training rows, if the model remembers any.
    """

    body_bytes: int = 10_000_000
    rows: int = 10_000
    explained_rows: int = 100
    seconds: float = 30.0
    waiting: int = 64
    threads: int = 2
    neighbors: bool = False


def create_app(
    models: ModelStore | Sequence[Any],
    *,
    token: str | None = None,
    limits: Limits | None = None,
    hosts: Sequence[str] | None = None,
) -> FastAPI:
    """The service as an ASGI application, for any ASGI server.

    Parameters
    ----------
    models : ModelStore, or sequence of path-like
        Model files, each named by the stem of its file; the first is the default.
    token : str, optional
        If given, requests other than for ``/`` and ``/health`` must have the header ``Authorization: Bearer <token>``.
    limits : Limits, optional
    hosts : sequence of str, optional
        Names in the header ``Host`` that are answered, without ports; all by default. ``usnrt serve`` gives those of
        the loopback, so that no page of the web can reach the service by a name of its own.

    Returns
    -------
    FastAPI

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.serve import create_app
    >>> X = np.random.default_rng(0).uniform(size=(60, 1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     USNRTRegressor(max_epochs=1, random_state=0).fit(X, X[:, 0]).save(f"{folder}/flats.usnrt")
    ...     app = create_app([f"{folder}/flats.usnrt"])
    >>> sorted(app.openapi()["paths"])[:4]
    ['/health', '/metrics', '/models', '/models/flats']
    """
    store = models if isinstance(models, ModelStore) else ModelStore(models)
    service = Service(store, token, limits or Limits())
    app = FastAPI(title="usnrt", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.openapi = lambda: openapi(store.all(), token is not None)  # type: ignore[method-assign]
    app.state.service = service
    for method, path, handler in (
        ("GET", "/", service.page),
        ("GET", "/health", service.health),
        ("GET", "/version", service.version),
        ("GET", "/openapi.json", service.openapi),
        ("GET", "/metrics", service.metrics),
        ("GET", "/models", service.list_models),
        ("GET", "/models/{name}", service.card),
        ("POST", "/models/{name}/predict", service.predict),
        ("POST", "/predict", service.predict),
        ("POST", "/reload", service.reload),
    ):
        app.add_api_route(path, handler, methods=[method])
    app.add_exception_handler(RequestError, _answer_request_error)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_middleware(_Guard, service=service, hosts=hosts)
    return app


class Service:
    """The handlers of the routes; predictions run in threads of their own."""

    def __init__(self, store: ModelStore, token: str | None, limits: Limits) -> None:
        self.store, self.token, self.limits = store, token, limits
        self.monitor = RequestMonitor()
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="usnrt-predict")
        self._waiting = 0

    # -- facts --

    async def page(self) -> HTMLResponse:
        """The what-if page, one self-contained file."""
        return HTMLResponse(PAGE)

    async def health(self) -> dict[str, Any]:
        """That the service runs; it does so only with all models loaded."""
        return {"status": "ok", "models": len(self.store.all())}

    async def version(self) -> dict[str, Any]:
        """Version of the library, and digests of the models."""
        return {"usnrt": __version__, "models": {m.name: m.card["sha256"] for m in self.store.all()}}

    async def openapi(self) -> JSONResponse:
        """The OpenAPI description."""
        return JSONResponse(openapi(self.store.all(), self.token is not None))

    async def metrics(self) -> PlainTextResponse:
        """Figures for monitoring."""
        monitors = [model.monitor for model in self.store.all()]
        lines = self.monitor.lines() + await asyncio.get_running_loop().run_in_executor(None, model_lines, monitors)
        return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")

    async def list_models(self) -> dict[str, Any]:
        """Names and targets of the models, the default one first."""
        return {"models": [{"name": m.name, "target": m.card["target"]} for m in self.store.all()]}

    async def card(self, name: str) -> JSONResponse:
        """The model card."""
        return JSONResponse(self.store.get(name).card)

    async def reload(self) -> dict[str, Any]:
        """Load the model files that have changed; requests in progress finish with the former models."""
        try:
            replaced = await asyncio.get_running_loop().run_in_executor(None, self.store.reload)
        except (OSError, ValueError) as error:
            log.warning("reload failed: %s", error)
            raise RequestError(
                409, "reload_failed", "a model file cannot be loaded; the models are as before"
            ) from None
        return {"reloaded": replaced}

    # -- predictions --

    async def predict(self, request: Request, name: str | None = None) -> Response:
        """Predict the rows of the body, JSON or CSV."""
        model = self.store.get(name)
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind not in ("application/json", "text/csv"):
            raise RequestError(
                415, "unsupported_type", f"the body must be application/json or text/csv, got {kind!r:.80}"
            )
        if self._waiting >= self.limits.waiting:
            raise RequestError(503, "busy", "the service is busy; try again in a moment")
        self._waiting += 1
        try:
            body = await self._body(request)
        except BaseException:
            self._waiting -= 1
            raise
        work = (model, body, kind == "text/csv", dict(request.query_params))
        future = asyncio.get_running_loop().run_in_executor(self._threads, self._predicted, *work)
        future.add_done_callback(self._done)
        # A thread cannot be stopped: a prediction that takes too long still counts until it ends.
        finished, _ = await asyncio.wait([future], timeout=self.limits.seconds)
        if not finished:
            sentence = f"the prediction took longer than {self.limits.seconds:g} s; send fewer rows"
            raise RequestError(503, "timeout", sentence)
        answer = await future
        if "text/csv" in request.headers.get("accept", ""):
            return PlainTextResponse(as_csv(answer["predictions"]), media_type="text/csv")
        return Response(json.dumps(answer, allow_nan=False), media_type="application/json")

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not future.cancelled():
            future.exception()  # else asyncio reports errors of predictions that nobody waits for

    async def _body(self, request: Request) -> bytes:
        """The body, unless it is too large or too slow."""
        most = self.limits.body_bytes
        too_large = RequestError(413, "too_large", f"a body may have at most {most:,} bytes")
        stated = request.headers.get("content-length", "")
        if stated.isdigit() and int(stated) > most:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise too_large
                    parts.append(part)
        except TimeoutError:
            raise RequestError(408, "slow_body", f"the body must arrive within {self.limits.seconds:g} s") from None
        return b"".join(parts)

    def _predicted(self, model: ServedModel, body: bytes, is_csv: bool, query: dict[str, str]) -> dict[str, Any]:
        """The answer to a body; runs in a thread."""
        if is_csv:
            rows: Any = read_csv(body, model.columns.names, self.limits.rows)
            options = options_of(query)
        else:
            given = _json_object(body)
            rows = given.pop("rows", None)
            options = options_of({**query, **given})
        is_long = options.explain or options.curve
        check_rows(model.columns, rows, self.limits.explained_rows if is_long else self.limits.rows)
        table = model.columns.table(rows, is_csv)
        predictions = self._answers(model, table, options)
        if not options.curve:  # rows that someone plays with on the page say nothing about the world
            model.monitor.observe(table, predictions)
        return {
            "model": model.name,
            "target": model.card["target"],
            "predictions": predictions,
            "ignored": model.columns.ignored(rows),
        }

    def _answers(self, model: ServedModel, table: Any, options: Options) -> list[dict[str, Any]]:
        try:
            predictions = predict_rows(model.model, table, options, model.rules)
        except (TypeError, ValueError) as error:  # the model's own checks of values
            raise RequestError(422, "invalid_rows", " ".join(str(error).split())[:500]) from None
        if not self.limits.neighbors:
            for row in predictions:
                row.get("explanation", {}).pop("neighbors", None)
        return predictions

    def close(self) -> None:
        """End the threads, once their predictions are done."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise RequestError(400, "invalid_json", f"the body must be JSON: {reason[:200]}") from None
    if not isinstance(given, dict):
        raise RequestError(422, "invalid_rows", 'the body must be {"rows": [{column: value, ...}, ...]}')
    return given


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON; null is a missing value")


async def _answer_request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    headers = {"retry-after": "1"} if error.status == 503 else {}
    return _error_answer(error, headers)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentences = {
        404: "there is nothing at this path; /openapi.json lists what there is",
        405: "the method is not allowed",
    }
    codes = {404: "not_found", 405: "method_not_allowed"}
    sentence = sentences.get(error.status_code, str(error.detail))
    answer = RequestError(error.status_code, codes.get(error.status_code, "http_error"), sentence)
    return _error_answer(answer, dict(error.headers or {}))


def _error_answer(error: RequestError, headers: dict[str, str] | None = None) -> Response:
    """In ASCII, since a message may quote text that UTF-8 cannot hold."""
    return Response(json.dumps(error.body()), error.status, headers, media_type="application/json")


class _Guard:
    """Around all routes: hosts, the token, figures of requests, headers, and no stack traces."""

    def __init__(self, app: Any, service: Service, hosts: Sequence[str] | None) -> None:
        self._app, self._service, self._hosts = app, service, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, start = 0, time.perf_counter()

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        self._service.monitor.began()
        try:
            refused = self._refusal(scope)
            await (refused or self._app)(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = 499  # nobody gets it; for the figures
        except Exception:
            number = uuid.uuid4().hex[:8]
            log.exception("error %s at %s %s", number, scope["method"], scope["path"])
            if not status:
                sentence = f"a bug of the service; its log has the details under the number {number}"
                answer = _error_answer(RequestError(500, "internal", sentence))
                await answer(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._service.monitor.ended(route, status, time.perf_counter() - start)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request for another host, or without the token; None if it may pass."""
        headers = dict(scope["headers"])
        host = urlsplit("//" + headers.get(b"host", b"").decode("latin-1")).hostname
        if self._hosts is not None and host not in self._hosts:
            return _error_answer(RequestError(421, "wrong_host", "this service has another name"))
        token = self._service.token
        if token is None or scope["path"] in ("/", "/health"):
            return None
        if hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + token.encode()):
            return None
        sentence = "the header Authorization must be 'Bearer' and the token of the service"
        return _error_answer(RequestError(401, "unauthorized", sentence), {"www-authenticate": "Bearer"})
