"""A repository on the Hugging Face hub, read by ranges: headers of a 600 GB model are a few MB.

Mirrors, tokens and offline mode are the client's own variables (HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE).
The revision is resolved once to a commit, so that all files are of one version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils._headers import build_hf_headers
from huggingface_hub.utils._http import get_session

from specdec.preflight.source import UnreachableError, UnreadableError

SECONDS = 30.0
HEAD = 128 << 10
HINT = "check the name, the revision, HF_TOKEN and HF_ENDPOINT"
NO_ANSWER = "check the network, HF_ENDPOINT and HF_HUB_OFFLINE, or name a local folder"
BUSY = frozenset({429, *range(500, 600)})
"""HTTP answers that say nothing of the repository."""


@dataclass
class HubRepository:
    """One repository at one commit."""

    name: str
    revision: str
    commit: str = ""
    _sizes: dict[str, int] = field(default_factory=dict)
    _head: tuple[str, bytes] = ("", b"")
    """Beginning of the file that was begun last: length, header and small files come in one request."""

    @classmethod
    def named(cls, text: str) -> HubRepository:
        """From org/name@revision; main without one."""
        name, _, revision = text.partition("@")
        return cls(name.strip("/"), revision or "main")

    @property
    def label(self) -> str:
        """With the commit, once it is known."""
        return f"hf://{self.name}@{self.commit or self.revision}"

    def sizes(self) -> dict[str, int]:
        """Names and sizes of its files at the top level; resolves the revision."""
        if self.commit:
            return self._sizes
        try:
            info = HfApi().model_info(self.name, revision=self.revision, files_metadata=True, timeout=SECONDS)
        except Exception as error:
            raise _worded("FileMissing", self.label, "a model", error) from error
        self.commit = info.sha or self.revision
        files = info.siblings or []
        self._sizes = {file.rfilename: file.size or 0 for file in files if "/" not in file.rfilename}
        return self._sizes

    def read(self, name: str, start: int, count: int) -> bytes:
        """Read a range of a file."""
        if start == 0 and count < HEAD and self._head[0] != name:
            self._head = (name, self._fetch(name, 0, min(HEAD, self._sizes.get(name, HEAD))))
        if self._head[0] == name and start + count <= len(self._head[1]):
            return self._head[1][start : start + count]
        return self._fetch(name, start, count)

    def _fetch(self, name: str, start: int, count: int) -> bytes:
        if count <= 0:
            return b""
        url = hf_hub_url(self.name, name, revision=self.commit or self.revision)
        headers = {
            **build_hf_headers(),
            "Range": f"bytes={start}-{start + count - 1}",
            "Accept-Encoding": "identity",
        }
        try:
            with _client().stream(
                "GET", url, headers=headers, timeout=SECONDS, follow_redirects=True
            ) as answer:
                status = answer.status_code
                ranged = status == 206 or (status == 200 and start == 0)
                content = _at_most(answer, count) if ranged else b""
        except Exception as error:
            raise _worded("NotReadable", url, "the file", error) from error
        if status in BUSY:
            raise UnreachableError(f"{url} answered {status}", NO_ANSWER)
        if not ranged:
            raise UnreadableError("NotReadable", f"{url} answered {status}", "206, a range of the file", HINT)
        return content


def _worded(code: str, place: str, expected: str, error: Exception) -> UnreadableError:
    """Tell an answer that refuses from none at all."""
    found = f"{place}: {_first_line(error)}"
    if isinstance(error, HfHubHTTPError) and error.response.status_code not in BUSY:
        return UnreadableError(code, found, expected, HINT)
    if isinstance(error, ValueError):  # a name that can be none
        return UnreadableError(code, found, expected, HINT)
    return UnreachableError(found, NO_ANSWER)


def _client() -> Any:
    return get_session()


def _at_most(answer: Any, count: int) -> bytes:
    """Take so many bytes, whatever the server sends: one that ignores ranges must not fill the memory."""
    taken = bytearray()
    for piece in answer.iter_bytes():
        taken += piece
        if len(taken) >= count:
            break
    return bytes(taken[:count])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
