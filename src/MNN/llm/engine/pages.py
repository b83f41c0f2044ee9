"""Which pages of a cache are whose: texts share those of a common beginning, and give back what they leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from MNN.errors import MNNError
from MNN.llm.models.cache import PAGE


class NoPagesError(MNNError):
    """All pages are in use; some text has to be forgotten, or to wait."""


class PagePool:
    """The pages of one cache, by their numbers, with how many texts each is in."""

    def __init__(self, count: int, what: str = "") -> None:
        """``what``: they are, where no pages."""
        self._what = what
        self._uses = [0] * count
        self._free = list(range(count))[::-1]  # those given back last are taken first: they are in memory
        self.touched = 0
        """Pages that were ever taken: the first ones."""

    @property
    def free(self) -> int:
        """How many pages no text has."""
        return len(self._free)

    @property
    def used(self) -> int:
        """How many pages texts have."""
        return len(self._uses) - len(self._free)

    def take(self) -> int:
        """A page for one text."""
        if not self._free:
            count = len(self._uses)
            raise NoPagesError(f"all {count} {self._what or f'pages of the cache ({count * PAGE} tokens)'} are in use")
        page = self._free.pop()
        self._uses[page] = 1
        self.touched = max(self.touched, page + 1)
        return page

    def share(self, page: int) -> None:
        """One text more has a page."""
        self._uses[page] += 1

    def uses(self, page: int) -> int:
        """How many texts have it."""
        return self._uses[page]

    def shared(self, page: int) -> bool:
        """Whether several texts have it."""
        return self._uses[page] > 1

    def give_back(self, page: int) -> None:
        """One text less has it."""
        self._uses[page] -= 1
        assert self._uses[page] >= 0, "a page was given back twice"
        if not self._uses[page]:
            self._free.append(page)


@dataclass(eq=False)
class PageList:
    """The pages of a text in one pool, in order; of layers with a ``window`` the first ``gone`` ones are given back."""

    pool: PagePool
    window: int = 0
    pages: list[int] = field(default_factory=list)
    gone: int = 0

    def missing(self, length: int) -> int:
        """How many pages it lacks for so many tokens."""
        return max(-(-length // PAGE) - len(self.pages), 0)

    def grow(self, length: int) -> None:
        """Takes what is missing. Raises :class:`NoPagesError` where there is not enough; nothing is taken then."""
        count = self.missing(length)
        if count > self.pool.free:
            raise NoPagesError(f"{count} pages of the cache are needed, {self.pool.free} are free")
        self.pages += [self.pool.take() for _ in range(count)]

    @property
    def held(self) -> list[int]:
        """The pages that are not given back."""
        return self.pages[self.gone :]

    def skip(self, count: int) -> None:
        """Has an empty list begin behind so many pages that no token sees any more."""
        assert not self.pages, "only what is empty begins later"
        self.pages, self.gone = [0] * count, count

    def cut(self, length: int) -> None:
        """Gives back what lies behind so many tokens."""
        keep = -(-length // PAGE)
        for page in self.pages[max(keep, self.gone) :]:
            self.pool.give_back(page)
        del self.pages[keep:]
        self.gone = min(self.gone, len(self.pages))

    def slide(self, length: int) -> None:
        """Gives back what tokens from ``length`` on do not see, nor a page's tokens before it: texts may go back."""
        if not self.window:
            return
        unseen = max(length + 1 - self.window - PAGE, 0) // PAGE
        for i in range(self.gone, min(unseen, len(self.pages))):
            self.pool.give_back(self.pages[i])
            self.pages[i] = 0
        self.gone = max(self.gone, min(unseen, len(self.pages)))

    def reaches(self, length: int) -> bool:
        """Whether all is there that the token behind so many sees."""
        seen = max(length + 1 - self.window, 0) // PAGE if self.window else 0
        return self.gone <= seen

    def fork(self, length: int) -> PageList:
        """Those of another text with the same first tokens."""
        pages = self.pages[: -(-length // PAGE)]
        for page in pages[self.gone :]:
            self.pool.share(page)
        return PageList(self.pool, self.window, pages, min(self.gone, len(pages)))

    def own_last(self, length: int) -> tuple[int, int] | None:
        """Has the page that the token behind ``length`` goes into be its own: the old and the new page where what it
        holds has to be copied."""
        if length % PAGE == 0 or not self.pool.shared(self.pages[length // PAGE]):
            return None
        old, new = self.pages[length // PAGE], self.pool.take()
        self.pool.give_back(old)
        self.pages[length // PAGE] = new
        return old, new


def pages_of(lists: Iterable[Sequence[PageList]]) -> list[list[int]]:
    """The pages of texts, each with a list for each pool, in each of these."""
    return [[page for one in some for page in one.held] for some in zip(*lists, strict=True)]


__all__ = ["NoPagesError", "PageList", "PagePool", "pages_of"]
