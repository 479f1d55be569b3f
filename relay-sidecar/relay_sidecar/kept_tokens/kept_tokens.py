"""Performs what `KeptAnswers` says: answers are sealed into the journal, and the node's pods are
followed in their stream.

Guarantees: an answer is on disk before its client has it, so that a reboot finds it; the changes of
one event are one transaction; what cannot be read back (damaged, of another version or record) is
deleted. The digest is against damage only: the journal seals the bytes.

    version, 1 byte | BLAKE2b of the rest, 16 bytes | MessagePack of the record
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from http import HTTPStatus
from typing import Final

import msgspec

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.core.access.expiry import OfflineClock
from relay_sidecar.core.token_request import TokenRequestKey, issued_token
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob
from relay_sidecar.journal.sealing.sealed_secrets import TOKENS as SPACE
from relay_sidecar.journal.sealing.sealer import Sealer
from relay_sidecar.kept_tokens.kept_answers import (
    AnswerChange,
    DeleteAnswers,
    KeepAnswer,
    KeptAnswer,
    KeptAnswers,
    PassOn,
    Refuse,
    Replay,
    TokenAnswer,
)
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import NoRoom
from relay_sidecar.telemetry.metrics import RelayCounters

_VERSION: Final = b"\x01"
_DIGEST_SIZE: Final = 16
_PREFIX: Final = "token-request/"


class _Record(msgspec.Struct, array_like=True, frozen=True):
    key: TokenRequestKey
    content_type: str
    body: bytes
    asked_at: float
    ends_at: float


_decoder = msgspec.msgpack.Decoder(_Record)


def record_name(key: TokenRequestKey) -> str:
    """One for each key; of a fixed length."""
    return _PREFIX + _digest(msgspec.msgpack.encode(key)).hex()


def encode(key: TokenRequestKey, kept: KeptAnswer) -> bytes:
    """Confidential."""
    answer = kept.answer
    record = _Record(key, answer.content_type, answer.body, kept.asked_at, kept.ends_at)
    content = msgspec.msgpack.encode(record)
    return _VERSION + _digest(content) + content


def decode(name: str, data: bytes) -> tuple[TokenRequestKey, KeptAnswer] | None:
    """`data` as found under the record name `name`."""
    head, content = data[: 1 + _DIGEST_SIZE], data[1 + _DIGEST_SIZE :]
    if head != _VERSION + _digest(content):
        return None
    try:
        record = _decoder.decode(content)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return _checked(name, record)


def _checked(name: str, record: _Record) -> tuple[TokenRequestKey, KeptAnswer] | None:
    """None where it is of another record, or has times that are none."""
    if name != record_name(record.key) or not (record.asked_at >= 0 and record.ends_at >= 0):
        return None
    answer = TokenAnswer(content_type=record.content_type, body=record.body)
    return record.key, KeptAnswer(answer=answer, asked_at=record.asked_at, ends_at=record.ends_at)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_SIZE).digest()


# What a sealed answer is bound to, beside the name of its record.
RESOURCE: Final = "/v1/serviceaccounts/token"
SWEEP_INTERVAL: Final = 60.0
# Seconds until the stream of pods is asked for again, where there was no room or no right.
RETRY: Final = 10.0


class _PodMeta(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: float | None = None


class _Pod(msgspec.Struct):
    metadata: _PodMeta


_POD = msgspec.json.Decoder(_Pod)


class KeptTokens:
    """`clock` is the one by which ages while cut count; `issued` are called with each token that
    upstream issued to this node, and with those of before."""

    def __init__(
        self,
        journal: Journal,
        sealer: Sealer,
        clock: OfflineClock,
        counters: RelayCounters,
        *,
        retain: float,
        issued: Sequence[Callable[[str], None]] = (),
    ) -> None:
        self._answers = KeptAnswers(retain=retain)
        self._journal = journal
        self._sealer = sealer
        self._clock = clock
        self._counters = counters
        self._issued = issued
        self._records: dict[TokenRequestKey, bytes] = {}
        self._stream: Stream | None = None
        # The state of the stream that was looked at last.
        self._seen: tuple[Stream, int, int] | None = None
        # The pods that were read then, and what they are as objects.
        self._pods: dict[Key, tuple[Item, _PodMeta]] = {}
        journal.rewrite_from(self._state)

    async def restore(self, saved: Mapping[bytes, bytes]) -> None:
        """`saved`: what an earlier life left in the journal's space `SPACE`."""
        found, lost = {}, []
        for name, sealed in saved.items():
            answer = self._read(name.decode(errors="replace"), sealed)
            if answer is None:
                lost.append(Blob(SPACE, name, None))
            else:
                found[answer[0]] = answer[1]
                self._records[answer[0]] = sealed
        # Without the key they may be of use later: another start, with the right key.
        if lost and self._sealer.failure is None:
            await self._journal.commit(*lost)
        await self._perform(self._answers.restore(found, now=self._now()))
        for kept in found.values():
            self._tell(kept.answer)

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def size(self) -> int:
        """Bytes: of the answers, and of what is persisted of each, sealed."""
        return self._answers.size + sum(map(len, self._records.values()))

    def __iter__(self) -> Iterator[TokenRequestKey]:
        """For what an answer is kept."""
        return iter(self._answers)

    def tokens(self) -> Iterator[tuple[TokenRequestKey, str]]:
        """Confidential: the tokens that are kept, and what they are for."""
        for key, answer in self._answers.items():
            token = issued_token(answer.content_type, answer.body)
            if token:
                yield key, token

    # ── requests ──

    async def requested(
        self, key: TokenRequestKey | None, *, is_this_node: bool, is_link_up: bool
    ) -> PassOn | Replay | Refuse:
        await self._look()
        decision = self._answers.requested(
            key, is_this_node=is_this_node, is_link_up=is_link_up, now=self._now()
        )
        self._count(key, decision)
        return decision

    async def unanswered(
        self, key: TokenRequestKey | None, *, is_this_node: bool
    ) -> Replay | Refuse:
        await self._look()
        decision = self._answers.unanswered(key, is_this_node=is_this_node, now=self._now())
        self._count(key, decision)
        return decision

    async def answered(
        self, key: TokenRequestKey, answer: TokenAnswer, *, status: int, is_this_node: bool
    ) -> None:
        await self._perform(
            self._answers.answered(
                key, answer, status=status, is_this_node=is_this_node, now=self._now()
            )
        )
        if is_this_node and status == HTTPStatus.CREATED:
            self._tell(answer)

    async def obtained(
        self, key: TokenRequestKey, *, status: int, content_type: str, body: bytes
    ) -> None:
        """Upstream's answer to a request that the relay made for a pod of this node."""
        answer = TokenAnswer(content_type=content_type, body=body)
        await self.answered(key, answer, status=status, is_this_node=True)

    def link(self, is_up: bool) -> None:
        if is_up:
            self._answers.link_restored()

    # ── pods, and time ──

    async def run(self, pods: Callable[[], Stream]) -> None:
        """Until it is cancelled. `pods` opens the stream of the node's pods, where it does not run;
        raises `NoRoom`."""
        while True:
            try:
                self._stream = pods()
            except NoRoom:
                await asyncio.sleep(RETRY)
                continue
            await self._look()
            if not await self._moved(self._stream):
                await self._perform(self._answers.swept(now=self._now()))
            elif self._stream.is_dropped:
                await asyncio.sleep(RETRY)

    async def _moved(self, stream: Stream) -> bool:
        """Whether it did within a minute. As long as it is waited for, it stays open."""
        seen = stream.version, stream.turns
        return await stream.until(
            lambda: (stream.version, stream.turns) != seen or stream.is_dropped,
            timeout=SWEEP_INTERVAL,
        )

    async def _look(self) -> None:
        """At the pods as their stream has them at this moment."""
        stream = self._stream
        if stream is None or stream.is_dropped or not stream.collection.is_synced:
            self._answers.pods_incomplete()
            self._seen = None
        elif self._seen != (stream, stream.version, stream.turns):
            self._seen = stream, stream.version, stream.turns
            listed = self._listed(stream)
            await self._perform(self._answers.pods_listed(listed, now=self._now()))

    def _listed(self, stream: Stream) -> dict[str, float | None]:
        """The grace of each pod that is being deleted, by uid; only what changed is read."""
        read: dict[Key, tuple[Item, _PodMeta]] = {}
        for item in stream.items():
            known = self._pods.get(item.key)
            is_same = known is not None and known[0] is item
            read[item.key] = known if known is not None and is_same else (item, _metadata(item))
        self._pods = read
        return {meta.uid: _grace(meta) for _, meta in read.values()}

    # ── inside ──

    def _tell(self, answer: TokenAnswer) -> None:
        token = issued_token(answer.content_type, answer.body)
        if token:
            for observer in self._issued:
                observer(token)

    def _now(self) -> float:
        return self._clock.read(boottime())

    def _count(self, key: TokenRequestKey | None, decision: PassOn | Replay | Refuse) -> None:
        if isinstance(decision, Replay) and key is not None:
            self._counters.tokens_replayed += 1
            if decision.is_first:
                pod = key.bound_object_ref.name if key.bound_object_ref else ""
                logger.info(
                    "a kept token is handed out",
                    extra=fields(namespace=key.namespace, account=key.service_account, pod=pod),
                )

    async def _perform(self, changes: list[AnswerChange]) -> None:
        blobs: list[Blob] = []
        for change in changes:
            match change:
                case KeepAnswer(key, kept):
                    sealed = self._seal(record_name(key), encode(key, kept))
                    if sealed is not None:
                        self._records[key] = sealed
                        blobs.append(Blob(SPACE, record_name(key).encode(), sealed))
                case DeleteAnswers(keys):
                    for key in keys:
                        self._records.pop(key, None)
                        blobs.append(Blob(SPACE, record_name(key).encode(), None))
        if blobs:
            await self._journal.commit(*blobs)

    def _state(self) -> list[Blob]:
        return [
            Blob(SPACE, record_name(key).encode(), sealed) for key, sealed in self._records.items()
        ]

    def _seal(self, name: str, content: bytes) -> bytes | None:
        return self._sealer.seal(
            content, resource=RESOURCE, namespace="", name=name, uid="", version=0
        )

    def _read(self, name: str, sealed: bytes) -> tuple[TokenRequestKey, KeptAnswer] | None:
        content = self._sealer.unseal(
            sealed, resource=RESOURCE, namespace="", name=name, uid="", version=0
        )
        return None if content is None else decode(name, content)


def _metadata(item: Item) -> _PodMeta:
    try:
        return _POD.decode(item.raw).metadata
    except msgspec.MsgspecError:
        return _PodMeta()


def _grace(meta: _PodMeta) -> float | None:
    if meta.deletion_timestamp is None:
        return None
    return meta.deletion_grace_period_seconds or 0.0
