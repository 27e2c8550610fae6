"""The versions of the model that answer here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import DamagedArtifactError, PerfModelError, UnknownModelVersionError
from perfmodel.estimator import Estimator
from perfmodel.estimator.kernels.loading import check_kernels, load_kernels
from perfmodel.estimator.single.analytical import ASKED_FOR_WARNING, AnalyticalModel
from perfmodel.estimator.single.loading import LoadedModel, load_model, load_version, version_names
from perfmodel.lru import LruCache
from perfmodel.store.artifacts import KERNELS
from service.answering.answerer import Answerer
from service.answering.fallback import Fallback
from service.answering.question_cache import JobCache
from service.http.errors import PinnedModelError
from service.state.state import AnyState

logger = logging.getLogger(__name__)

#: Predictions that a new version makes before it serves: those that the old one made last.
_WARMED = 20_000
_WARMED_AT_ONCE = 256

#: What a pin says to mean the analytical model.
ANALYTICAL = ("analytical", AnalyticalModel.version)

_POINTER = "/pin_model"


@dataclass(frozen=True, kw_only=True, slots=True)
class Swap:
    """What became of a look into the folder.

    Parameters
    ----------
    previous, serving : str
        Versions before and after.
    problems : tuple of str
        What is wrong with versions that do not serve.
    """

    previous: str
    serving: str
    problems: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    """A version in memory, and the catalogue that its answerer was made for."""

    loaded: LoadedModel
    answerer: Answerer
    catalog: Catalog


class LoadedVersions:
    """Holds the version that serves, those that are pinned, and the analytical model.

    :attr:`serving` is exchanged in one assignment: whoever took the old one answers with it to the
    end, and no memory is shared between versions but that of graphs. :meth:`load` and
    :meth:`reload` wait, and are for one thread at a time.

    Parameters
    ----------
    most : int
        Versions that are kept in memory besides the one that serves.
    fetch : callable
        Has the files of a version in the folder that is elsewhere.
    on_swap : callable
        Called with the estimator that serves after each look into the folder.
    """

    def __init__(
        self,
        estimator: Estimator,
        state: AnyState,
        folder: Path,
        *,
        most: int = 2,
        fetch: Callable[[str], None] = lambda _: None,
        on_swap: Callable[[Estimator], None] = lambda _: None,
    ) -> None:
        self._state = state
        self._folder = folder
        self._fetch = fetch
        self._on_swap = on_swap
        #: The jobs that were asked about, which all versions share.
        self.jobs = JobCache(4_096)
        self._kept: LruCache[str, _Kept] = LruCache(most)
        self._exchanging = Lock()
        self.serving = Answerer(estimator, state, self.jobs)
        self._analytical = self._keep(LoadedModel(model=AnalyticalModel(ASKED_FOR_WARNING)))
        self._fallback = Fallback(self._analytical.answerer.estimator, state, self.jobs)

    @property
    def analytical(self) -> Answerer:
        """The answerer of the analytical model."""
        return self._analytical_kept().answerer

    @property
    def fallback(self) -> Fallback:
        """What answers where time is out."""
        self._analytical_kept()
        return self._fallback

    def in_memory(self, version: str) -> Answerer | None:
        """Return the answerer of a version that is loaded, or None; never waits."""
        if version in ANALYTICAL:
            return self.analytical
        serving = self.serving
        if version == serving.version:
            return serving
        kept = self._kept.get(version)
        if kept is None:
            return None
        if kept.catalog is not serving.estimator.accelerators:
            kept = self._keep(kept.loaded)
            self._kept.put(version, kept)
        return kept.answerer

    def load(self, version: str) -> Answerer:
        """Return the answerer of a version, loaded if it is not.

        Raises
        ------
        UnknownModelVersionError
            It is not in the folder.
        PinnedModelError
            It is, and cannot answer.
        """
        known = self.in_memory(version)
        if known is not None:
            return known
        installed = version_names(self._folder)
        if version not in installed:
            raise UnknownModelVersionError(
                version, known=self.pinnable(), pointer=_POINTER, hint="GET /v1/models lists them."
            )
        try:
            kept = self._keep(self._read(version))
        except DamagedArtifactError as error:
            raise PinnedModelError(
                f"The pinned version cannot answer. {error}",
                pointer=_POINTER,
                allowed=self.pinnable(without=version),
            ) from error
        self._kept.put(version, kept)
        logger.info("the model %s was loaded for questions that pin it", version)
        return kept.answerer

    def check(self, version: str) -> None:
        """Load a version and let it predict what was predicted last; nothing is kept of it.

        Raises
        ------
        DamagedArtifactError
            It cannot be loaded, or fails on what was asked.
        """
        if version.startswith(f"{KERNELS}/"):
            self._have(version)
            check_kernels(self._folder, version)
            return
        estimator = self.serving.estimator
        try:
            _warm(estimator.with_model(self._read(version)), estimator)
        except DamagedArtifactError:
            raise
        except (PerfModelError, ArithmeticError) as error:
            raise DamagedArtifactError(
                f"The model {version} fails on jobs that were asked about: {error}"
            ) from error

    def pinnable(self, *, without: str | None = None) -> list[str]:
        """Return what a pin may say; some of it may turn out to be damaged."""
        names = [ANALYTICAL[0], self.serving.version, *version_names(self._folder)]
        return [name for name in dict.fromkeys(names) if name != without]

    @property
    def loaded(self) -> list[str]:
        """The versions that are in memory, the one that serves first."""
        return list(dict.fromkeys([self.serving.version, *self._kept.recent(1_000)]))

    def reload(self) -> Swap:
        """Look into the folder, and let its best version serve from now on.

        A version that is damaged, or that fails on what was asked lately, is passed over and
        named. Where none is sound the one that serves goes on.
        """
        old = self.serving
        known = {old.version: old.estimator.core.model}
        for version in self._kept.recent(1_000):
            kept = self._kept.get(version)
            if kept is not None:
                known[version] = kept.loaded.model
        loaded = load_model(self._folder, known)
        kernels, of_kernels = load_kernels(self._folder, old.estimator.kernel_model)
        old.estimator.kernel_model = kernels
        problems = (*loaded.problems, *of_kernels)
        if any(facts.get("serving") for facts in loaded.models):
            if loaded.model.version != old.version:
                problems += self._swap(old, loaded)
        elif loaded.models or problems:
            problems += (f"No version in the folder can serve; {old.version} goes on.",)
        self._note(loaded, problems)
        swap = Swap(previous=old.version, serving=self.serving.version, problems=problems)
        self._on_swap(self.serving.estimator)
        return swap

    def use_accelerators(self, change: Callable[[Catalog], Catalog]) -> None:
        """Answer for another catalogue from now on, with the same version.

        Parameters
        ----------
        change : callable
            Returns the catalogue in place of the one that it gets; the same one changes nothing.
        """
        with self._exchanging:
            old = self.serving.estimator
            accelerators = change(old.accelerators)
            if accelerators is not old.accelerators:
                fresh = old.with_accelerators(accelerators)
                self.serving = Answerer(fresh, self._state, self.jobs)

    def forget_registered(self) -> None:
        """Read registered graphs again when they are asked about next, in every version."""
        self.jobs.drop(lambda written, prepared: prepared.job.graph is not None)
        kept = [self._analytical, *(one for _, one in self._kept.items())]
        for answerer in (self.serving, *(one.answerer for one in kept)):
            answerer.estimator.core.forget_registered()

    def _read(self, version: str) -> LoadedModel:
        self._have(version)
        return load_version(self._folder, version)

    def _have(self, version: str) -> None:
        """Have the files of a version in the folder."""
        if not (self._folder / version).is_dir():
            self._fetch(version)

    def _beside(self, fresh: Answerer, current: Catalog) -> Answerer:
        """Return a answerer with an operator's devices of another catalogue."""
        made_for = fresh.estimator.accelerators
        accelerators = made_for.with_own_if_free(*current.own())
        if accelerators is made_for:
            return fresh
        estimator = fresh.estimator.with_accelerators(accelerators)
        return Answerer(estimator, self._state, self.jobs)

    def _swap(self, old: Answerer, loaded: LoadedModel) -> tuple[str, ...]:
        """Let a version serve; returns what is wrong with it where it does not."""
        fresh = self._keep(loaded).answerer
        try:
            _warm(fresh.estimator, old.estimator)
        except (PerfModelError, ArithmeticError) as error:
            logger.error("the model %s is passed over: %s", fresh.version, error)
            return (f"The model {fresh.version} fails on jobs that were asked about: {error}",)
        with self._exchanging:
            # The catalogue may have changed since the new version was made ready.
            self.serving = self._beside(fresh, self.serving.estimator.accelerators)
        # Without its memory: whoever pins it wants single answers, and two whole memories are much.
        self._kept.put(old.version, self._keep(LoadedModel(model=old.estimator.core.model)))
        logger.info("the model %s serves in the place of %s", fresh.version, old.version)
        return ()

    def _note(self, loaded: LoadedModel, problems: tuple[str, ...]) -> None:
        estimator = self.serving.estimator
        estimator.models = tuple(
            {**facts, "serving": facts["model"] == estimator.model_version}
            for facts in loaded.models
        )
        estimator.problems = problems

    def _keep(self, loaded: LoadedModel) -> _Kept:
        estimator = self.serving.estimator.with_model(loaded)
        answerer = Answerer(estimator, self._state, self.jobs)
        return _Kept(loaded=loaded, answerer=answerer, catalog=self.serving.estimator.accelerators)

    def _analytical_kept(self) -> _Kept:
        """Return the analytical model; its answerer follows the catalogue."""
        if self._analytical.catalog is not self.serving.estimator.accelerators:
            self._analytical = kept = self._keep(self._analytical.loaded)
            self._fallback = Fallback(kept.answerer.estimator, self._state, self.jobs)
        return self._analytical


def _warm(fresh: Estimator, old: Estimator) -> None:
    """Predict with a new version what was last predicted with the old one."""
    pairs = old.core.recently_predicted(_WARMED)
    for start in range(0, len(pairs), _WARMED_AT_ONCE):
        fresh.core.predictions(pairs[start : start + _WARMED_AT_ONCE])
