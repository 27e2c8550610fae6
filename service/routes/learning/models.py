"""``/v1/models``: the versions of trained models, and which of them serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request, Response

from perfmodel.errors import DamagedArtifactError, UnknownNameError
from perfmodel.registry.differences import differences
from perfmodel.registry.model_registry import KEPT, PINNED_FOR_DAYS, ModelRegistry
from perfmodel.registry.states import Change
from perfmodel.store.artifacts import named_version
from service.access.access_policy import caller_of
from service.dispatch.dispatcher import Dispatcher, dispatcher_of
from service.http.bodies import etagged_response, json_response
from service.http.documentation import problems
from service.http.errors import PinnedModelError, not_found
from service.http.redaction import without_places
from service.schemas.state_bodies import (
    CollectionAnswer,
    ModelDifferencesAnswer,
    ModelsAnswer,
    ModelVersionAnswer,
    PromotionAnswer,
    ReloadAnswer,
)

T = TypeVar("T")

router = APIRouter(prefix="/v1/models", tags=["catalogue"])

Why = Annotated[str, Query(max_length=1_000, description="The reason, kept with the change.")]
Keep = Annotated[int, Query(ge=0, le=100_000, description="Retired versions that stay.")]
PinnedDays = Annotated[
    float,
    Query(ge=0, le=36_500, description="A version that was pinned within so many days stays."),
]


@router.get(
    "",
    summary="What answers, and what is wrong with what is installed",
    responses={200: {"model": ModelsAnswer}},
)
async def models(request: Request) -> Response:
    """List the trained models that were found, which of them answers, and the damaged ones."""
    dispatcher = dispatcher_of(request)
    estimator = dispatcher.estimator
    return etagged_response(
        request,
        {
            "serving": estimator.model_version,
            "loaded": dispatcher.models.loaded,
            "models": list(estimator.models),
            "problems": [without_places(each) for each in dispatcher.problems],
        },
    )


@router.post(
    "/reload",
    summary="Let the version serve that the store says",
    responses={200: {"model": ReloadAnswer}, **problems(503)},
)
async def reload(request: Request) -> Response:
    """Look into the store of models now; other workers and hosts look by themselves."""
    swap = await dispatcher_of(request).watch.reload()
    return json_response(
        {
            "serving": swap.serving,
            "previous": swap.previous,
            "swapped": swap.serving != swap.previous,
            "problems": [without_places(each) for each in swap.problems],
        }
    )


@router.get(
    "/{name}/{version}",
    summary="One version of a model",
    responses={200: {"model": ModelVersionAnswer}, **problems(404, 409, 422, 503)},
)
async def version_of(request: Request, name: str, version: str) -> Response:
    """Return what a version learned from, how good it is, and what became of it."""
    registry = dispatcher_of(request).source.registry

    def found() -> dict[str, object]:
        manifest = registry.versions.manifest(name, version)
        history = registry.history(name)
        state = history.state_of(version, registry.versions.versions(name))
        return {
            "model": f"{name}/{version}",
            "state": state,
            "changes": [asdict(one) for one in history.changes if one.version == version],
            "manifest": {key: value for key, value in manifest.items() if key != "files"},
        }

    return etagged_response(request, await looked(request, found))


@router.get(
    "/{name}/{version}/diff",
    summary="How a version differs from another",
    responses={200: {"model": ModelDifferencesAnswer}, **problems(404, 409, 422, 503)},
)
async def diff(
    request: Request,
    name: str,
    version: str,
    against: Annotated[
        str | None,
        Query(description="Name and version; by default the one of that name that serves."),
    ] = None,
) -> Response:
    """Compare what two versions learned from, their settings, their scores and their files."""
    registry = dispatcher_of(request).source.registry

    def found() -> dict[str, object]:
        new = registry.versions.manifest(name, version)
        before = named_version(against or registry.serving_reference(name))
        old = registry.versions.manifest(*before)
        return {
            "before": "/".join(before),
            "after": f"{name}/{version}",
            **asdict(differences(old, new)),
        }

    return json_response(await looked(request, found))


@router.post(
    "/{name}/{version}/promote",
    summary="Let a version serve",
    responses={200: {"model": PromotionAnswer}, **problems(404, 409, 422, 503)},
)
async def promote(
    request: Request, name: str, version: str, why: Why = "", force: bool = False
) -> Response:
    """Let a version serve on every worker and host, within seconds.

    Its files are compared with their hashes, and it predicts what was predicted last, before; 409
    says what is wrong with it, or who decided otherwise at the same time. One that was refused
    needs `force`; one that serves already goes on, and nothing is written.
    """
    dispatcher = dispatcher_of(request)
    registry = registry_of(request)

    def change() -> Change:
        return registry.promote(
            name,
            version,
            why=why,
            force=force,
            check=lambda: dispatcher.models.check(f"{name}/{version}"),
        )

    return await _promoted(dispatcher, name, await looked(request, change))


@router.post(
    "/{name}/rollback",
    summary="Let the version serve that did before",
    responses={200: {"model": PromotionAnswer}, **problems(404, 409, 422, 503)},
)
async def rollback(request: Request, name: str, why: Why = "") -> Response:
    """Go back to the version that served before, and once more to the one before that."""
    dispatcher = dispatcher_of(request)
    registry = registry_of(request)

    def change() -> Change:
        return registry.rollback(
            name, why=why, check=lambda version: dispatcher.models.check(f"{name}/{version}")
        )

    return await _promoted(dispatcher, name, await looked(request, change))


@router.post(
    "/{name}/collect",
    summary="Delete retired versions but for the newest",
    responses={200: {"model": CollectionAnswer}, **problems(404, 409, 422, 503)},
)
async def collect(
    request: Request,
    name: str,
    keep: Keep = KEPT,
    pinned_days: PinnedDays = PINNED_FOR_DAYS,
    why: Why = "",
) -> Response:
    """Delete retired versions.

    Never one that serves, that a rollback goes back to, that is newer than the one that serves, or
    that was pinned lately.
    """
    registry = registry_of(request)

    def removed() -> list[str]:
        return registry.collect(name, keep=keep, pinned_for_days=pinned_days, why=why)

    return json_response({"name": name, "removed": await looked(request, removed)})


def registry_of(request: Request) -> ModelRegistry:
    """Return the registry for changes by whoever asks."""
    return dispatcher_of(request).source.registry.acting_for(caller_of(request))


async def looked(request: Request, action: Callable[[], T]) -> T:
    """Do what waits for the store."""
    try:
        return await dispatcher_of(request).looks.run(action)
    except UnknownNameError as error:
        raise not_found(error.message) from error
    except DamagedArtifactError as error:
        raise PinnedModelError(error.message) from error


async def _promoted(dispatcher: Dispatcher, name: str, change: Change) -> Response:
    swap = await dispatcher.watch.reload()
    return json_response(
        {
            "model": f"{name}/{change.version}",
            "serving": swap.serving,
            "change": asdict(change),
            "changed": not change.is_standing,
            "problems": [without_places(each) for each in swap.problems],
        }
    )
