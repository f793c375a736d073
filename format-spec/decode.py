#!/usr/bin/env python3
"""Reads gowk files, format 1.0. Python 3.8 or later, standard library only.

Written from README.md beside it and laid out in the order of its sections, whose numbers the comments give.
It shares no code with gowk, and is meant to be read next to the specification.

    decode.py FILE               verify every checksum, replay the journal in memory, print statistics as JSON
    decode.py FILE --check       read keys from standard input, one a line, and print those that are present
    decode.py FILE --count       read keys in the same way, and print the copies of each, a tab and the key
    decode.py STORE              the same for a store: all its versions, and every file of the newest (STORE.md)
    decode.py STORE --check      look keys up in the newest version; --count does, too
    decode.py --examples         print the worked examples of appendix A
    decode.py --self-test        check the hash, the tables and the examples of README.md

Stores need Python 3.11, for its TOML parser. Nothing is written, to FILE or elsewhere. Exit status: 0 done, 1 damage
found (standard error names each damaged page and its region), 2 the file cannot be read at all, or contradicts itself.
"""

import argparse
import io
import json
import math
import mmap
import os
import re
import struct
import sys
import zlib
from array import array

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None

HERE = os.path.dirname(os.path.abspath(__file__))
M64 = (1 << 64) - 1
M32 = (1 << 32) - 1


class Refused(Exception):
    """The file cannot be read, or contradicts itself: exit status 2."""


class Damage(Exception):
    """Pages do not match their checksums: exit status 1. Holds (page, reason) pairs."""


# ---------------------------------------------------------------------------------------------------------------------
# 2. Conventions

MAGIC = bytes.fromhex("89676f776b0d0a1a")
JOURNAL_MAGIC = b"gowkjrnl"
FRAME_MAGIC = b"gowkfram"
MAJOR, MINOR = 1, 0

PAGE = 4096
BUCKETS_PER_PAGE = 512
PAGES_PER_REGION = 16
BUCKETS_PER_REGION = 8192
REGION = 65536
MAX_REGIONS = 1 << 32
MAX_NUMBER = (1 << 63) - 1

SLOT = 65536
METADATA_AT = 4096
METADATA_LIMIT = 49152
SLOT_CRC_AT = 65532

LIVE = 131072
LIVE_SEQUENCES = 53248

JOURNAL_HEADER = 512
FRAME_ALIGN = 512
FRAME_HEADER = 64
FRAME_PAYLOAD_LIMIT = 16777216
COMMIT_FLAG = 1
TAIL_LENGTHS = 23
COUNTS = 8 * (5 + TAIL_LENGTHS + 2 + 7)

KIND_SET, KIND_COUNTING, KIND_FORGETTING = 0, 1, 2
KINDS = {KIND_SET: "set", KIND_COUNTING: "counting", KIND_FORGETTING: "forgetting"}
FEATURE_FORGETTING, FEATURE_UNMARKED = 2, 4
FIRST_EPOCH, MAX_TIME = 1, 1 << 53


def align(value, to):
    return -(-value // to) * to


# ---------------------------------------------------------------------------------------------------------------------
# 3.1 The hash: XXH3, 128 bits, with a 64-bit seed and the default secret

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MX1, MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25


def _u32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def _u64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def _swap32(x):
    return int.from_bytes(x.to_bytes(4, "little"), "big")


def _swap64(x):
    return int.from_bytes(x.to_bytes(8, "little"), "big")


def _fold(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def _avalanche_xxh64(h):
    h ^= h >> 33
    h = h * P64_2 & M64
    h ^= h >> 29
    h = h * P64_3 & M64
    return h ^ h >> 32


def _avalanche(h):
    h ^= h >> 37
    h = h * MX1 & M64
    return h ^ h >> 32


# The words of the secret for keys of up to 16 bytes, combined once.
_FLIP_0 = (_u64(SECRET, 64) ^ _u64(SECRET, 72), _u64(SECRET, 80) ^ _u64(SECRET, 88))
_FLIP_1 = (_u32(SECRET, 0) ^ _u32(SECRET, 4), _u32(SECRET, 8) ^ _u32(SECRET, 12))
_FLIP_4 = _u64(SECRET, 16) ^ _u64(SECRET, 24)
_FLIP_9 = (_u64(SECRET, 32) ^ _u64(SECRET, 40), _u64(SECRET, 48) ^ _u64(SECRET, 56))


def xxh3_128(data, seed):
    """(high half, low half)."""
    length = len(data)
    if length > 240:
        return _long(data, length, seed)
    if length > 128:
        return _129_to_240(data, length, seed)
    if length > 16:
        return _17_to_128(data, length, seed)
    if length > 8:
        return _9_to_16(data, length, seed)
    if length > 3:
        return _4_to_8(data, length, seed)
    if length > 0:
        return _1_to_3(data, length, seed)
    return _avalanche_xxh64(seed ^ _FLIP_0[1]), _avalanche_xxh64(seed ^ _FLIP_0[0])


def _1_to_3(data, length, seed):
    low = data[0] << 16 | data[length >> 1] << 24 | data[length - 1] | length << 8
    high = _swap32(low)
    high = (high << 13 | high >> 19) & M32
    return (
        _avalanche_xxh64(high ^ (_FLIP_1[1] - seed & M64)),
        _avalanche_xxh64(low ^ (_FLIP_1[0] + seed & M64)),
    )


def _4_to_8(data, length, seed):
    seed ^= _swap32(seed & M32) << 32
    keyed = (_u32(data, 0) + (_u32(data, length - 4) << 32)) ^ (_FLIP_4 + seed & M64)
    product = keyed * (P64_1 + (length << 2) & M64)
    low, high = product & M64, product >> 64
    high = high + (low << 1) & M64
    low ^= high >> 3
    low ^= low >> 35
    low = low * MX2 & M64
    low ^= low >> 28
    return _avalanche(high), low


def _9_to_16(data, length, seed):
    low, high = _u64(data, 0), _u64(data, length - 8)
    product = (low ^ high ^ (_FLIP_9[0] - seed & M64)) * P64_1
    product_low = (product & M64) + ((length - 1) << 54) & M64
    high ^= _FLIP_9[1] + seed & M64
    product_high = (product >> 64) + high + (high & M32) * (P32_2 - 1) & M64
    product_low ^= _swap64(product_high)
    product = product_low * P64_2
    return _avalanche((product >> 64) + product_high * P64_2 & M64), _avalanche(product & M64)


def _mix16(data, at, secret_at, seed):
    return _fold(
        _u64(data, at) ^ (_u64(SECRET, secret_at) + seed & M64),
        _u64(data, at + 8) ^ (_u64(SECRET, secret_at + 8) - seed & M64),
    )


def _mix32(low, high, data, first, second, secret_at, seed):
    low = low + _mix16(data, first, secret_at, seed) & M64
    low ^= _u64(data, second) + _u64(data, second + 8) & M64
    high = high + _mix16(data, second, secret_at + 16, seed) & M64
    high ^= _u64(data, first) + _u64(data, first + 8) & M64
    return low, high


def _finish_medium(low, high, length, seed):
    return (
        -_avalanche(low * P64_1 + high * P64_4 + (length - seed) * P64_2 & M64) & M64,
        _avalanche(low + high & M64),
    )


def _17_to_128(data, length, seed):
    low, high = length * P64_1 & M64, 0
    for i in range((length - 1) // 32, -1, -1):
        low, high = _mix32(low, high, data, 16 * i, length - 16 * (i + 1), 32 * i, seed)
    return _finish_medium(low, high, length, seed)


def _129_to_240(data, length, seed):
    low, high = length * P64_1 & M64, 0
    for i in range(4):
        low, high = _mix32(low, high, data, 32 * i, 32 * i + 16, 32 * i, seed)
    low, high = _avalanche(low), _avalanche(high)
    for i in range(4, length // 32):
        low, high = _mix32(low, high, data, 32 * i, 32 * i + 16, 3 + 32 * (i - 4), seed)
    low, high = _mix32(low, high, data, length - 16, length - 32, 136 - 17 - 16, -seed & M64)
    return _finish_medium(low, high, length, seed)


def _long(data, length, seed):
    secret = bytearray()
    for at in range(0, 192, 16):
        secret += (_u64(SECRET, at) + seed & M64).to_bytes(8, "little")
        secret += (_u64(SECRET, at + 8) - seed & M64).to_bytes(8, "little")
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]

    def accumulate(at, secret_at):
        words = struct.unpack_from("<8Q", data, at)
        keys = struct.unpack_from("<8Q", secret, secret_at)
        for lane in range(8):
            key = words[lane] ^ keys[lane]
            acc[lane ^ 1] = acc[lane ^ 1] + words[lane] & M64
            acc[lane] = acc[lane] + (key & M32) * (key >> 32) & M64

    def merge(secret_at, start):
        for i in range(0, 8, 2):
            start += _fold(acc[i] ^ _u64(secret, secret_at + 8 * i), acc[i + 1] ^ _u64(secret, secret_at + 8 * i + 8))
        return _avalanche(start & M64)

    # A block is 16 stripes of 64 bytes; the accumulators are scrambled after each but the last.
    stripes = (length - 1) // 64
    for stripe in range(stripes):
        accumulate(64 * stripe, 8 * (stripe % 16))
        if stripe % 16 == 15:
            keys = struct.unpack_from("<8Q", secret, 128)
            for lane in range(8):
                acc[lane] = (acc[lane] ^ acc[lane] >> 47 ^ keys[lane]) * P32_1 & M64
    accumulate(length - 64, 192 - 64 - 7)
    return merge(192 - 64 - 11, ~(length * P64_2) & M64), merge(11, length * P64_1 & M64)


# ---------------------------------------------------------------------------------------------------------------------
# 3.2, 3.3 and 3.5 Region, buckets, tag and tail; shards


def offset_table(tag_bits):
    path = os.path.join(HERE, "offset-t%d.txt" % tag_bits)
    with open(path, encoding="ascii") as lines:
        return [int(value, 16) for value in lines.read().split()]


class Width:
    """What follows from n, from a in a forgetting filter (4.10), and from whether the filter is marked."""

    HEADROOM = {2: 0.80, 3: 0.90, 4: 0.93, 5: 0.945, 6: 0.955, 7: 0.96}

    FORGETTING = ((4, 2), (4, 3), (3, 4), (2, 4))

    def __init__(self, slots, expiry_bits=0, marked=True):
        self.slots = slots
        self.marked = marked
        self.expiry_bits = expiry_bits
        self.expiry_mask = (1 << expiry_bits) - 1
        self.bits = 64 // slots
        self.tag_bits = 6 if slots >= 4 else 10
        self.tail_bits = self.bits - expiry_bits - self.tag_bits - marked
        # The marker of a full tail; without markers, the lowest bit of a tail.
        self.lowest = 1 << expiry_bits
        # Without markers there are no universal slots and no digits.
        self.universal = 1 << (self.bits - 1) if marked else None
        self.highest_digit = (1 << (self.tag_bits - 1)) - 1
        # The bits that are 0 in empty slots and in digits.
        self.entry_mask = 1 << (self.bits - 1) | (1 << (self.bits - self.tag_bits)) - 1 & ~self.expiry_mask
        self.most_copies = sum(self.highest_digit ** lane for lane in range(slots))
        self.mask = (1 << self.bits) - 1
        self.offsets = offset_table(self.tag_bits)

    def place(self, position, local, regions):
        """(region, rem, i1, tag, i2, fresh slot) of a hash."""
        product = position * regions
        region, rem = product >> 64, product & M64
        first = local & 0x1FFF
        tag = local >> (64 - self.tag_bits)
        tail = rem >> (64 - (self.bits - self.expiry_bits - self.tag_bits))
        slot = tag << (self.bits - self.tag_bits) | tail << self.expiry_bits
        slot = slot | self.lowest if self.marked else max(slot, self.lowest)
        return region, rem, first, tag, first ^ self.offsets[tag], slot

    def rate_at_full_load(self):
        return 2 * self.slots * 2.0 ** -(self.tag_bits + self.tail_bits)

    def regions_for(self, keys):
        return max(1, math.ceil(keys / (BUCKETS_PER_REGION * self.slots * self.HEADROOM[self.slots])))


def shard_of(position, shards):
    """3.5: the shard of a key, and pos' there."""
    product = position * shards
    return product >> 64, product & M64


# ---------------------------------------------------------------------------------------------------------------------
# 4. Slots and buckets


def matches(slot, query, width):
    """4.3: whether all bits above the entry's lowest set bit agree. Empty slots and digits match nothing. In a forgetting
    filter, the query has `now` in its expiry bits, and an entry that has the same has expired (4.10). Without markers, an
    entry equals the query."""
    entry = slot & width.entry_mask
    if width.expiry_bits and slot != width.universal and (slot ^ query) & width.expiry_mask == 0:
        return False
    if not width.marked:
        return slot != 0 and (slot ^ query) & ~width.expiry_mask == 0
    return entry != 0 and (slot ^ query) & ~(entry ^ (entry - 1)) == 0


def digit(slot, width):
    """The value of a digit; 0 for any other slot."""
    value = slot >> (width.bits - width.tag_bits)
    return value if width.marked and slot & (width.entry_mask | width.expiry_mask) == 0 else 0


def lanes(word, width):
    return [word >> width.bits * lane & width.mask for lane in range(width.slots)]


def groups(word, width):
    """4.2: (entry, copies) from the lowest lane up. None if a digit belongs to no group."""
    found, weight = [], 0
    for slot in lanes(word, width):
        value = digit(slot, width)
        if value:
            if weight == 0:
                return None
            entry, copies = found.pop()
            found.append((entry, copies + value * weight))
            weight *= width.highest_digit
        else:
            weight = 1 if slot & width.entry_mask not in (0, width.universal) else 0
            if weight:
                found.append((slot, 1))
    return found


def bucket_matches(word, query, width):
    return any(matches(slot, query, width) for slot in lanes(word, width))


def split_slot(slot, width):
    """8.1: the slots that a slot becomes in the left and in the right child; 0 for an empty one."""
    tail_part = (1 << (width.bits - width.tag_bits)) - 1 & ~width.expiry_mask
    tail = slot & tail_part
    fingerprint = slot & ~width.expiry_mask
    if fingerprint == 0 or width.marked and tail & tail_part >> 1 & ~width.expiry_mask == 0:
        return slot, slot
    moved = slot & ~tail_part | tail << 1 & tail_part
    if not width.marked and fingerprint != width.lowest:
        moved |= width.lowest
    return (0, moved) if tail >> width.bits - width.tag_bits - 1 else (moved, 0)


def mark_slot(slot, width):
    """4.11: the slot of a filter that is marked without a doubling."""
    return slot | width.lowest if slot and not width.marked else slot


def expected_rate(by_tail, universal, width, slots):
    """4.9"""
    weight = sum(count * 2.0 ** -(width.tag_bits + tail) for tail, count in enumerate(by_tail))
    quarantined = universal / slots
    kept = (1 - quarantined) * (1 - quarantined / 8)
    return (1 - kept) - kept * math.expm1(-weight * 2 * width.slots / slots)


# ---------------------------------------------------------------------------------------------------------------------
# 5.1 to 5.4 The file


class Geometry:
    def __init__(self, slots, base_regions, generation, expiry_bits=0, marked=True):
        self.width = Width(slots, expiry_bits, marked)
        self.regions = base_regions << generation
        self.pages = self.regions * PAGES_PER_REGION
        self.slots = self.regions * BUCKETS_PER_REGION * slots
        self.sums = LIVE + align(LIVE_SEQUENCES + 4 * self.regions, PAGE)
        self.data = align(self.sums + align(4 * self.pages, PAGE), REGION)
        self.file_length = self.data + self.regions * REGION


class Counts:
    def __init__(self, data, at):
        values = struct.unpack_from("<%dQ" % (COUNTS // 8), data, at)
        self.inserted, self.removed, self.universal, self.digits, self.saturated = values[:5]
        self.by_tail = list(values[5:5 + TAIL_LENGTHS])
        self.epoch, self.swept, *self.reserved = values[5 + TAIL_LENGTHS:]
        self.entries = sum(self.by_tail)

    def fit(self, geometry, kind, epoch_length):
        if kind == KIND_SET and (self.removed, self.digits, self.saturated) != (0, 0, 0):
            return False
        if kind == KIND_FORGETTING:
            epochs = FIRST_EPOCH <= self.epoch <= MAX_TIME // epoch_length
            if not epochs or self.swept > geometry.regions or (self.digits, self.saturated) != (0, 0):
                return False
        elif (self.epoch, self.swept) != (0, 0):
            return False
        longest = geometry.width.tail_bits
        used = self.entries + self.digits + self.universal
        fits = not any(self.reserved) and used <= geometry.slots and self.saturated * (geometry.width.slots - 1) <= self.digits
        if not geometry.width.marked and (self.universal or any(self.by_tail[:longest])):
            return False
        return fits and not any(self.by_tail[longest + 1:])


def metadata(data):
    """5.3: a list of (name, value); None if it is not well formed."""
    entries, at = [], 0
    while at < len(data):
        if at + 8 > len(data):
            return None
        name_length, zero, value_length = struct.unpack_from("<HHI", data, at)
        end = at + 8 + name_length + value_length
        if zero != 0 or end > len(data):
            return None
        name = bytes(data[at + 8:at + 8 + name_length])
        try:
            name.decode("utf-8")
        except UnicodeDecodeError:
            return None
        if entries and entries[-1][0] >= name:
            return None
        entries.append((name, bytes(data[end - value_length:end])))
        at = end
    return entries


SUPERBLOCK = struct.Struct("<8sHHIQQQQ16sQII16sQIIQQQQQddQQQQQ296sIIQQIIII")
assert SUPERBLOCK.size == 544


class Superblock:
    """A slot whose magic and CRC are right; `check` does the rest of 5.6."""

    def __init__(self, slot):
        self.bytes = slot
        (_, self.major, self.minor, self.kind, self.incompatible, self.read_only_compatible, self.compatible,
         self.id, self.uuid, self.seed, self.hash_id, self.n, canary, self.base_regions, self.generation, self.growth,
         self.live, self.sums, self.data, self.file_length, self.max_file_size, self.requested_rate, self.max_rate,
         self.capacity, self.shards, self.shard, self.commit, self.salt, counts, self.metadata_length,
         self.reserved_0, self.forget_after, self.epoch_length, self.expiry_bits, self.refresh,
         self.clock, self.reserved_1) = SUPERBLOCK.unpack_from(slot, 0)
        self.canary = int.from_bytes(canary, "little")
        self.counts = Counts(counts, 0)

    @staticmethod
    def sealed(slot):
        """The superblock in these 65536 bytes, or None."""
        if len(slot) < SLOT or slot[:8] != MAGIC or zlib.crc32(slot[:SLOT_CRC_AT]) != _u32(slot, SLOT_CRC_AT):
            return None
        return Superblock(slot)

    def identity(self):
        return (self.uuid, self.seed, self.hash_id, self.kind, self.n, self.base_regions, self.generation, self.shards,
                self.shard, self.incompatible, self.forget_after, self.epoch_length, self.expiry_bits, self.refresh, self.clock)

    def check(self):
        if self.major != MAJOR:
            raise Refused("format version %d.%d, but this program reads %d.x" % (self.major, self.minor, MAJOR))
        unknown = self.incompatible & ~(FEATURE_FORGETTING | FEATURE_UNMARKED)
        if unknown != 0:
            raise Refused("uses unknown features %#x" % unknown)
        marked = self.incompatible & FEATURE_UNMARKED == 0
        if not 2 <= self.n <= 7:
            raise Refused("n is %d, not 2 to 7" % self.n)
        if self.expiry_bits and (self.n, self.expiry_bits) not in Width.FORGETTING:
            raise Refused("expiry bits are %d, with n = %d" % (self.expiry_bits, self.n))
        if not 1 <= self.base_regions <= MAX_REGIONS:
            raise Refused("n0 is %d, not 1 to 2^32" % self.base_regions)
        if self.generation > 32 or self.base_regions << self.generation > MAX_REGIONS:
            raise Refused("g is %d, too much for n0 = %d" % (self.generation, self.base_regions))
        if not 1 <= self.shards <= MAX_REGIONS // (self.base_regions << self.generation):
            raise Refused("shards is %d, but all shards together have 1 to 2^32 regions" % self.shards)
        if self.shard >= self.shards:
            raise Refused("shard is %d of %d" % (self.shard, self.shards))
        geometry = self.geometry = Geometry(self.n, self.base_regions, self.generation, self.expiry_bits, marked)
        for name, found, expected in (
            ("live", self.live, LIVE),
            ("sums", self.sums, geometry.sums),
            ("data", self.data, geometry.data),
            ("file length", self.file_length, geometry.file_length),
        ):
            if found != expected:
                raise Refused("superblock field `%s` is %d, not %d" % (name, found, expected))
        if self.id > MAX_NUMBER or self.commit > MAX_NUMBER:
            raise Refused("id %d or commit %d is higher than %d" % (self.id, self.commit, MAX_NUMBER))
        if self.hash_id not in (0, 1):
            raise Refused("hash id is %d, not 0 or 1" % self.hash_id)
        if self.hash_id == 1:
            high, low = xxh3_128(b"gowk", self.seed)
            expected = high << 64 | low
        else:
            expected = 0
        if self.canary != expected:
            raise Refused("the canary does not match the hash function")
        if self.kind not in KINDS:
            raise Refused("kind is %d, not 0 to 2" % self.kind)
        forgets = self.kind == KIND_FORGETTING
        if not marked and (self.kind == KIND_COUNTING or self.generation != 0):
            raise Refused("an unmarked filter is a set or forgets, and has never doubled")
        only = (self.incompatible & FEATURE_FORGETTING != 0, self.expiry_bits != 0, self.forget_after != 0, self.epoch_length != 0)
        if any(value != forgets for value in only) or self.refresh > forgets or self.clock > forgets:
            raise Refused("the fields of forgetting do not fit the kind")
        if self.refresh and self.clock:
            raise Refused("a filter of the newest keys does not refresh them")
        if forgets:
            times = self.forget_after <= MAX_TIME and self.epoch_length <= MAX_TIME // 4
            if not times or self.forget_after > ((1 << self.expiry_bits) - 2) * self.epoch_length:
                raise Refused("the time of forgetting does not fit the expiry bits")
        if self.growth not in (0, 1):
            raise Refused("growth is %d, not 0 or 1" % self.growth)
        for rate in (self.requested_rate, self.max_rate):
            if not 0.0 <= rate <= 1.0:  # false for NaN, too
                raise Refused("a false-positive rate is not from 0 to 1")
        if not self.counts.fit(geometry, self.kind, self.epoch_length):
            raise Refused("the counts do not fit the file")
        if self.metadata_length > METADATA_LIMIT:
            raise Refused("metadata of %d bytes, more than %d" % (self.metadata_length, METADATA_LIMIT))
        end = METADATA_AT + self.metadata_length
        self.metadata = metadata(self.bytes[METADATA_AT:end])
        if self.metadata is None:
            raise Refused("the metadata is not well formed")
        if self.minor <= MINOR and (
            self.reserved_0 or self.reserved_1
            or any(self.bytes[SUPERBLOCK.size:METADATA_AT]) or any(self.bytes[end:SLOT_CRC_AT])
        ):
            raise Refused("a reserved byte of the superblock is not 0")


# ---------------------------------------------------------------------------------------------------------------------
# 5.6 Checks at opening


def open_superblock(data):
    """The newest superblock of a file, checked."""
    slots = [bytes(data[0:SLOT]), bytes(data[SLOT:2 * SLOT])]
    valid = [block for block in map(Superblock.sealed, slots) if block]
    if not valid:
        claims = [slot for slot in slots if slot[:8] == MAGIC]
        if not claims:
            raise Refused("not a gowk filter")
        if len(data) < 2 * SLOT:
            raise Refused("%d bytes long, less than two superblocks" % len(data))
        majors = {int.from_bytes(slot[8:10], "little") for slot in claims}
        if len(majors) == 1 and max(majors) > MAJOR:
            raise Refused("format version %d, but this program reads %d.x" % (max(majors), MAJOR))
        raise Refused("both superblocks are damaged")
    valid.sort(key=lambda block: -block.id)
    newest = valid[0]
    newest.check()
    if len(valid) == 2:
        valid[1].check()
        if valid[1].identity() != newest.identity() or valid[1].id == newest.id:
            raise Refused("the two superblocks contradict each other")
    else:
        print("note: one of the two superblocks is damaged", file=sys.stderr)
    if len(data) != newest.geometry.file_length:
        raise Refused("%d bytes long, but its superblock says %d" % (len(data), newest.geometry.file_length))
    return newest


# ---------------------------------------------------------------------------------------------------------------------
# 6. The journal


class Journal:
    """What a journal file holds, by the rules of 6.4."""

    def __init__(self, data, block):
        self.transactions = []  # (commit number, [(page, crc, indices, words)], counts, metadata or None)
        self.after = []  # commit numbers of frames at or behind the end; they prove damage
        header = data[:JOURNAL_HEADER]
        self.header_right = (
            len(header) == JOURNAL_HEADER and header[:8] == JOURNAL_MAGIC and zlib.crc32(header[:508]) == _u32(header, 508)
        )
        if self.header_right:
            _, self.major, minor, self.g, self.uuid, self.salt, self.base = struct.unpack_from("<8sHHI16sQQ", header)
            if self.major != MAJOR:
                raise Refused("journal format version %d.%d, but this program reads %d.x" % (self.major, minor, MAJOR))
            previous = _u32(header, 508)
        else:
            # Without a header, only frames that continue the superblock are looked for.
            self.g, self.uuid, self.salt, self.base = block.generation, block.uuid, block.salt, block.commit
            previous = None
        self.scan(data, previous)

    def scan(self, data, previous):
        at, number, order, records, last_page = JOURNAL_HEADER, self.base + 1, 0, [], -1
        while True:
            frame = self.frame(data, at)
            if frame is None:
                break
            payload, commit, frame_order, flags, pages, frame_previous, crc, length = frame
            if commit != number or frame_order != order or previous not in (None, frame_previous):
                break
            parsed = parse_payload(payload, pages, flags, last_page)
            if parsed is None:
                break
            found, last_page, counts, changed = parsed
            records += found
            previous, order, at = crc, order + 1, at + length
            if flags & COMMIT_FLAG:
                self.transactions.append((number, records, counts, changed))
                number, order, records, last_page = number + 1, 0, [], -1
        # The journal ends here. Frames of a later commit, here or behind, prove that it is broken.
        self.broken_at = at
        while at < len(data):
            frame = self.frame(data, at)
            if frame is not None and frame[1] > number:
                self.after.append(frame[1])
            at += frame[-1] if frame is not None else FRAME_ALIGN

    def frame(self, data, at):
        """The frame that begins at `at`, if it is right on its own; else None."""
        if data[at:at + 8] != FRAME_MAGIC or at + FRAME_HEADER > len(data):
            return None
        (_, salt, commit, order, flags, payload_length, pages, previous, *reserved, crc) = struct.unpack_from(
            "<8sQQIIIIIIIIII", data, at)
        length = align(FRAME_HEADER + payload_length, FRAME_ALIGN)
        if salt != self.salt or any(reserved) or payload_length > FRAME_PAYLOAD_LIMIT or at + length > len(data):
            return None
        payload = data[at + FRAME_HEADER:at + FRAME_HEADER + payload_length]
        if zlib.crc32(payload, zlib.crc32(data[at:at + 60])) != crc:
            return None
        return payload, commit, order, flags, pages, previous, crc, length


def parse_payload(payload, pages, flags, last_page):
    """6.3: (page records, last page, counts, metadata) or None."""
    if flags not in (0, COMMIT_FLAG):
        return None
    records, at = [], 0
    for _ in range(pages):
        if at + 16 > len(payload):
            return None
        page, crc, count = struct.unpack_from("<QII", payload, at)
        at += 16
        if page <= last_page or not 1 <= count <= BUCKETS_PER_PAGE:
            return None
        last_page = page
        index_bytes = 0 if count == BUCKETS_PER_PAGE else align(2 * count, 8)
        if at + index_bytes + 8 * count > len(payload):
            return None
        if count == BUCKETS_PER_PAGE:
            indices = range(BUCKETS_PER_PAGE)
        else:
            indices = struct.unpack_from("<%dH" % count, payload, at)
            if indices[-1] >= BUCKETS_PER_PAGE or any(b <= a for a, b in zip(indices, indices[1:])):
                return None
            if any(payload[at + 2 * count:at + index_bytes]):
                return None
        words = payload[at + index_bytes:at + index_bytes + 8 * count]
        at += index_bytes + 8 * count
        records.append((page, crc, indices, words))
    counts = changed = None
    if flags == COMMIT_FLAG:
        if at + COUNTS + 8 > len(payload):
            return None
        counts = Counts(payload, at)
        follows, length = struct.unpack_from("<II", payload, at + COUNTS)
        at += COUNTS + 8
        if follows not in (0, 1) or (length and not follows):
            return None
        end = at + align(length, 8)
        if end > len(payload) or any(payload[at + length:end]):
            return None
        if follows:
            changed = payload[at:at + length]
        at = end
    return (records, last_page, counts, changed) if at == len(payload) else None


def decide(journal, block):
    """6.7: the transactions to replay; raises Refused if the table says so."""
    counted = journal.transactions[-1][0] if journal.transactions else None
    lost = max(journal.after, default=None)
    if counted is None and lost is None:
        return []
    if journal.uuid != block.uuid:
        raise Refused("the journal belongs to another filter, and holds commits")
    last = max(number for number in (counted, lost) if number is not None)
    continues = not journal.header_right or (
        journal.g == block.generation and journal.salt == block.salt and journal.base == block.commit)
    if lost is not None and lost > block.commit and continues:
        raise Refused("the journal is damaged at byte %d, and commits up to %d lie behind it" % (journal.broken_at, lost))
    if counted is None and lost <= block.commit:
        return []
    if journal.g > block.generation or (last > block.commit and not continues):
        raise Refused("the journal holds commits up to %d, but the filter ends at commit %d of another history"
                      % (last, block.commit))
    return journal.transactions if continues and counted > block.commit else []


# ---------------------------------------------------------------------------------------------------------------------
# 5.5 Pages, with the journal's changes on top


class Filter:
    def __init__(self, data, journal_bytes):
        self.data = data
        self.block = open_superblock(data)
        self.geometry = self.block.geometry
        self.counts, self.commit = self.block.counts, self.block.commit
        self.metadata = self.block.metadata
        self.changed = {}  # page: (bytes, CRC)
        if journal_bytes:
            journal = Journal(journal_bytes, self.block)
            for transaction in decide(journal, self.block):
                self.replay(*transaction)

    def replay(self, number, records, counts, changed):
        for page, crc, indices, words in records:
            if page >= self.geometry.pages:
                raise Refused("the journal names page %d, but the filter has %d" % (page, self.geometry.pages))
            content = bytearray(self.page(page))
            for i, index in enumerate(indices):
                content[8 * index:8 * index + 8] = words[8 * i:8 * i + 8]
            self.changed[page] = bytes(content), crc
        if not counts.fit(self.geometry, self.block.kind, self.block.epoch_length):
            raise Refused("the counts of commit %d do not fit the file" % number)
        self.counts, self.commit = counts, number
        if changed is not None:
            self.metadata = metadata(changed)
            if self.metadata is None or len(changed) > METADATA_LIMIT:
                raise Refused("the metadata of commit %d is not well formed" % number)

    def page(self, page):
        if page in self.changed:
            return self.changed[page][0]
        at = self.geometry.data + PAGE * page
        return self.data[at:at + PAGE]

    def recorded_crc(self, page):
        if page in self.changed:
            return self.changed[page][1]
        return _u32(self.data, self.geometry.sums + 4 * page)

    def page_crc(self, page, content):
        prefix = self.block.uuid + struct.pack("<IQ", self.block.generation, page)
        return zlib.crc32(content, zlib.crc32(prefix))

    def verify(self):
        """Reads everything. Returns the entries by tail length, and the numbers of universal slots, digits, saturated
        groups and quarantined buckets."""
        width = self.geometry.width
        bits, mask, universal = width.bits, width.mask, width.universal
        quarantined_word = sum(universal << (bits * lane) for lane in range(width.slots)) if width.marked else None
        stray = M64 ^ ((1 << (bits * width.slots)) - 1)
        lowest = [0] * 65  # entries by the position of their lowest set bit, from 1
        universals = quarantined = digits = saturated = 0
        # Without markers, entries count as if a marker ended their tails at bit 1.
        lowest_bit_above_tail = width.tail_bits + width.expiry_bits + 1 if width.marked else width.tail_bits + 1
        fingerprint = mask & ~width.expiry_mask
        damage = []
        for page in range(self.geometry.pages):
            content = self.page(page)
            if self.page_crc(page, content) != self.recorded_crc(page):
                damage.append((page, "does not match its checksum"))
                continue
            words = array("Q", content)
            if sys.byteorder == "big":
                words.byteswap()
            for word in words:
                if word == quarantined_word:
                    quarantined += 1
                    universals += width.slots
                    continue
                if word & stray:
                    damage.append((page, "has bits outside of every slot"))
                    break
                whole, in_group, of_group = word, False, 0
                while word:
                    slot = word & mask
                    word >>= bits
                    entry = slot & fingerprint
                    ends = (entry & -entry).bit_length()
                    if slot == universal:
                        damage.append((page, "has a universal slot beside others"))
                        break
                    if slot and not entry:
                        damage.append((page, "has an expiry without an entry"))
                        break
                    if not width.marked:
                        ends = slot and 1  # every tail is full
                    if not width.marked or ends <= lowest_bit_above_tail or slot & universal:
                        lowest[ends] += 1
                        in_group = slot != 0 and ends <= lowest_bit_above_tail
                    elif in_group:
                        of_group += 1
                    else:
                        damage.append((page, "has a digit without an entry"))
                        break
                if of_group and self.block.kind != KIND_COUNTING:
                    damage.append((page, "has a digit, and does not count"))
                    break
                if of_group:
                    digits += of_group
                    saturated += [copies for _, copies in groups(whole, width) or []] == [width.most_copies]
            if any(lowest[lowest_bit_above_tail + 1:]):
                damage.append((page, "has a slot with a tag and no end of its tail"))
                lowest[lowest_bit_above_tail + 1:] = [0] * (64 - lowest_bit_above_tail)
        if damage:
            raise Damage(damage)
        by_tail = [lowest[lowest_bit_above_tail - tail] for tail in range(width.tail_bits + 1)]
        return by_tail, universals, digits, saturated, quarantined

    def statistics(self, journal_length):
        width, block, counts = self.geometry.width, self.block, self.counts
        by_tail, universals, digits, saturated, quarantined = self.verify()
        stored = counts.by_tail[:width.tail_bits + 1]
        if by_tail != stored:
            raise Refused("a scan finds entries by tail length %s, but the counts say %s" % (by_tail, stored))
        if universals != counts.universal:
            raise Refused("a scan finds %d universal slots, but the counts say %d" % (universals, counts.universal))
        if (digits, saturated) != (counts.digits, counts.saturated):
            raise Refused("a scan finds %d digits and %d saturated groups, but the counts say %d and %d"
                          % (digits, saturated, counts.digits, counts.saturated))
        uuid = block.uuid.hex()
        return {
            "format": "%d.%d" % (block.major, block.minor),
            "uuid": "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:])),
            "kind": KINDS[block.kind],
            "slots_per_bucket": block.n,
            "base_regions": block.base_regions,
            "generation": block.generation,
            "regions": self.geometry.regions,
            "shards": block.shards,
            "shard": block.shard,
            "entries": counts.entries,
            "digits": digits,
            "saturated": saturated,
            # `removed` may exceed `inserted` in a part of a divided filter (5.2).
            "copies": max(0, counts.inserted - counts.removed) or counts.entries - by_tail[0],
            "load": (counts.entries + digits + counts.universal) / self.geometry.slots,
            "bits_per_key": len(self.data) * 8 / counts.entries if counts.entries else None,
            "entries_by_tail": by_tail,
            "expected_false_positive_rate": expected_rate(by_tail, universals, width, self.geometry.slots),
            "commit": self.commit,
            "file_length": len(self.data),
            "journal_length": journal_length,
            "quarantined_buckets": quarantined,
            **({} if block.kind != KIND_FORGETTING else {
                "forget_after": block.forget_after,
                "forget_within": block.epoch_length,
                "refresh": bool(block.refresh),
                "clock": block.clock,
                "epoch": counts.epoch,
                "swept": counts.swept,
            }),
        }

    def buckets(self, key):
        """Both buckets of a key, and its fresh slot. Pages are verified before they are believed."""
        width = self.geometry.width
        high, low = xxh3_128(key, self.block.seed)
        shard, high = shard_of(high, self.block.shards)
        if shard != self.block.shard:
            raise Refused("holds shard %d of %d, and a key belongs to shard %d"
                          % (self.block.shard, self.block.shards, shard))
        region, _, first, _, second, query = width.place(high, low, self.geometry.regions)
        words = []
        for bucket in (first, second):
            page = region * PAGES_PER_REGION + bucket // BUCKETS_PER_PAGE
            if page not in self.verified:
                content = self.page(page)
                if self.page_crc(page, content) != self.recorded_crc(page):
                    raise Damage([(page, "does not match its checksum")])
                self.verified[page] = content
            words.append(_u64(self.verified[page], 8 * (bucket % BUCKETS_PER_PAGE)))
        return words, query | self.counts.epoch & width.expiry_mask

    def contains(self, key):
        """4.3"""
        words, query = self.buckets(key)
        return any(bucket_matches(word, query, self.geometry.width) for word in words)

    def expires(self, key):
        """4.10: the latest epoch in which a match of the key expires; 0 if nothing matches."""
        width, now = self.geometry.width, self.counts.epoch
        words, query = self.buckets(key)
        found = [slot for word in words for slot in lanes(word, width) if matches(slot, query, width)]
        return max((math.inf if slot == width.universal else now + (slot - now & width.expiry_mask) for slot in found),
                   default=0)

    def count(self, key):
        """4.8"""
        if self.block.kind != KIND_COUNTING:
            return int(self.contains(key))
        width = self.geometry.width
        words, query = self.buckets(key)
        copies = 0
        for word in words:
            if width.universal in lanes(word, width):
                return 2 * width.most_copies
            for entry, more in groups(word, width) or []:
                if matches(entry, query, width):
                    copies += more
                    if more == width.most_copies:
                        return 2 * width.most_copies
        return copies

    def answer(self, keys, out, counted):
        if self.block.hash_id != 1:
            raise Refused("the filter was created for keys hashed by the caller")
        self.verified = {}
        for key in keys:
            if counted:
                out.write(b"%d\t%s\n" % (self.count(key), key))
            elif self.contains(key):
                out.write(key + b"\n")


# ---------------------------------------------------------------------------------------------------------------------
# 7. Locks: this program only reads, and only while no writer has the file


def open_files(path):
    """The file's bytes and the journal's. The gate stays locked until the process ends."""
    path = os.path.realpath(path)
    while True:
        file = open(path, "rb")
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_SH)  # the gate
            try:
                lock = open(path + "-lock", "rb")
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # the writer lock
                open_files.keep = lock
            except FileNotFoundError:
                pass  # without a lock file there is no writer
            except BlockingIOError:
                raise Refused("a writer has it open; close it first")
        opened, named = os.fstat(file.fileno()), os.stat(path)
        if (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino):
            break
        file.close()
    try:
        with open(path + "-journal", "rb") as journal:
            journal_bytes = journal.read()
    except FileNotFoundError:
        journal_bytes = b""
    if opened.st_size == 0:
        return file, b"", journal_bytes
    return file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), journal_bytes


def open_sealed(path):
    """7.9: the bytes of a sealed file."""
    if os.path.exists(path + "-journal") and os.path.getsize(path + "-journal") > JOURNAL_HEADER:
        raise Refused("has a journal beside it")
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise Refused("is empty")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


# ---------------------------------------------------------------------------------------------------------------------
# Stores: STORE.md, whose sections the comments give


FORMAT = 1
VERSION_NAME = re.compile(r"([0-9]{12}|[1-9][0-9]{12,})\.toml")
RUN_FILE_NAME = re.compile(r"([0-9]{12}|[1-9][0-9]{12,})-([0-9a-f]{32})\.run")
SHARD_FILE_NAME = re.compile(r"([0-9]{12}|[1-9][0-9]{12,})-([0-9a-f]{32})\.gowk")
UUID = re.compile(r"[0-9a-f]{32}")


def toml_of(path):
    """3: the fields of a text."""
    try:
        import tomllib
    except ImportError:
        raise Refused("a store needs Python 3.11 or later")
    with open(path, "rb") as file:
        text = file.read()
    if len(text) >= 1 << 28:
        raise Refused("%s: longer than a text may be" % path)
    body, seal = text[:-19], text[-19:]  # 10 bytes, 8 digits and a newline
    if seal != b"# crc32 = %08x\n" % zlib.crc32(body):
        raise Refused("%s: its checksum does not match" % path)
    first, _, rest = body.partition(b"\n")
    if first != b"format = %d" % FORMAT:
        raise Refused("%s: %r, but this program reads format %d" % (path, first.decode("utf-8", "replace"), FORMAT))
    try:
        return tomllib.loads(rest.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Refused("%s: %s" % (path, error))


def check_fields(path, table, required, optional=()):
    for name, right in list(required.items()) + [pair for pair in dict(optional).items() if pair[0] in table]:
        if name not in table:
            raise Refused("%s: field `%s` is missing" % (path, name))
        if not right(table[name]):
            raise Refused("%s: field `%s` is %r" % (path, name, table[name]))
    unknown = set(table) - set(required) - set(optional)
    if unknown:
        raise Refused("%s: unknown fields %s" % (path, sorted(unknown)))


def is_within(low, high):
    return lambda value: type(value) is int and low <= value <= high


def is_text(value):
    return isinstance(value, str)


def is_text_within(longest):
    return lambda value: is_text(value) and len(value.encode()) <= longest


def is_uuid(value):
    return is_text(value) and UUID.fullmatch(value) is not None


def is_part(value):
    return isinstance(value, float) and 0 < value < 1


class Run:
    """12.1: a run, all of it read and checked."""

    PAGE, RECORDS, ENTRIES = 4096, 341, 1023

    def __init__(self, path, data):
        self.path, self.data = path, data
        if len(data) < self.PAGE or data[:8] != b"gowkruns":
            raise Refused("%s: no run" % path)
        form, self.bits = _u32(data, 8), _u32(data, 12)
        if form != 1:
            raise Refused("%s: format %d, but this program reads format 1" % (path, form))
        self.store, self.uuid = data[16:32].hex(), data[32:48].hex()
        self.count, kind, self.epoch = _u64(data, 48), _u32(data, 56), _u64(data, 60)
        if self.bits > 29 or not 1 <= self.count < 1 << 32 or kind not in KINDS or any(data[68:4092]):
            raise Refused("%s: its head is not that of a run" % path)
        self.kind = KINDS[kind]
        if not is_within(*((FIRST_EPOCH, MAX_TIME) if self.kind == "forgetting" else (0, 0)))(self.epoch):
            raise Refused("%s: its epoch is %d" % (path, self.epoch))
        pages = -(-self.count // self.RECORDS)
        if len(data) != self.PAGE * (1 + pages + -(-(1 << self.bits) // self.ENTRIES)):
            raise Refused("%s: has %d bytes" % (path, len(data)))
        for page in range(len(data) // self.PAGE):
            at = page * self.PAGE
            crc = zlib.crc32(data[32:48] + page.to_bytes(8, "little") + data[at:at + 4092])
            if crc != _u32(data, at + 4092):
                raise Refused("%s: page %d is damaged" % (path, page))
        self.copies, self.records, before = {}, [], None
        for page in range(1, pages + 1):
            at, used = page * self.PAGE, min(self.RECORDS, self.count - (page - 1) * self.RECORDS)
            if any(data[at + 8 * used:at + 2728]) or any(data[at + 2728 + 4 * used:at + 4092]):
                raise Refused("%s: page %d has something behind its last record" % (path, page))
            for place in range(used):
                word = _u32(data, at + 2728 + 4 * place)
                key = (_u64(data, at + 8 * place), word & 0x7fffff)
                says = (word >> 23) - (word >> 31 << 9)
                twice = before == key
                if before is not None and before > key or twice and self.kind != "counting":
                    raise Refused("%s: page %d is not in order" % (path, page))
                right = says != 0 and not (twice and (self.copies[key] > 0) != (says > 0))
                if not {"set": says == 1, "counting": right, "forgetting": 1 <= says <= 15}[self.kind]:
                    raise Refused("%s: page %d has a record that says %d" % (path, page, says))
                self.copies[key] = self.copies.get(key, 0) + says
                self.records.append(key)
                before = key
        at, start = (1 + pages) * self.PAGE, 0
        for entry in range(1 << self.bits):
            while start < self.count and self.records[start][0] << self.bits < entry << 64:
                start += 1
            place = at + entry // self.ENTRIES * self.PAGE + 4 * (entry % self.ENTRIES)
            if _u32(data, place) != start:
                raise Refused("%s: entry %d of its index is wrong" % (path, entry))

    @staticmethod
    def key(high, low):
        return high, low >> 54 << 13 | low & 0x1fff


class Store:
    def __init__(self, root):
        self.root = root
        path = os.path.join(root, "store.toml")
        self.fields = fields = toml_of(path)
        self.forgets = fields.get("kind") == "forgetting"
        # 4
        check_fields(path, fields, {
            "uuid": is_uuid,
            "shards": is_within(1, 65536),
            "kind": lambda value: value in KINDS.values(),
            "hash": lambda value: value in ("xxh3", "caller"),
            "seed": lambda value: is_text(value) and value.isdigit() and str(int(value)) == value and int(value) <= M64,
            "slots": is_within(2, 7),
            "capacity": is_within(1, MAX_NUMBER),
            "growth": lambda value: value in ("auto", "never"),
            **({} if not self.forgets else {
                "forget_after": is_within(1, MAX_TIME),
                "epoch_length": is_within(1, MAX_TIME // 4),
                "expiry_bits": lambda value: (fields.get("slots"), value) in Width.FORGETTING,
                "refresh": lambda value: isinstance(value, bool),
            }),
        }, {"rate": is_part, "max_file_size": is_within(1, MAX_NUMBER), "max_rate": is_part, "divided": lambda value: value is True,
            "vacuum_keep": is_within(1, MAX_NUMBER), "vacuum_grace": is_within(1000, MAX_NUMBER)})
        if ("vacuum_keep" in fields) != ("vacuum_grace" in fields):
            raise Refused("%s: has one of `vacuum_keep` and `vacuum_grace`" % path)
        if self.forgets and fields["forget_after"] > ((1 << fields["expiry_bits"]) - 2) * fields["epoch_length"]:
            raise Refused("%s: its entries do not live for `forget_after`" % path)
        found = (VERSION_NAME.fullmatch(name) for name in os.listdir(os.path.join(root, "versions")))
        numbers = sorted(int(name.group(1)) for name in found if name)
        if not numbers:
            raise Refused("%s: holds no version" % os.path.join(root, "versions"))
        self.versions = [self.version(number) for number in numbers]
        self.newest = self.versions[-1]
        if fields.get("divided") and numbers[-1] == 1:
            raise Refused("%s: its creation out of a filter was not finished" % root)
        # 9: versions that stay
        bases = {done["base"] for done in self.newest.get("token", ())}
        for number in sorted(bases.union(range(self.newest["first"], self.newest["number"]))):
            if number not in numbers:
                raise Refused("%s: version %d is missing, and should stay" % (root, number))
        self.filters = {}
        self.runs = [self.run(row) for row in self.newest.get("run", ())]

    def run(self, row):
        """10, step 4: a run that the newest version names."""
        path = os.path.join(self.root, "runs", row["file"])
        with open(path, "rb") as file:
            run = Run(path, file.read())
        for what, found, expected in (
            ("store", run.store, self.fields["uuid"]),
            ("uuid", run.uuid, row["file"][-36:-4]),
            ("kind", run.kind, self.fields["kind"]),
            ("number of records", run.count, row["records"]),
            ("epoch", run.epoch, row.get("epoch", 0)),
            ("length", len(run.data), row["bytes"]),
        ):
            if found != expected:
                raise Refused("%s: its %s is %s, not %s" % (path, what, found, expected))
        return run

    def version(self, number):
        """5"""
        path = os.path.join(self.root, "versions", "%012d.toml" % number)
        table = toml_of(path)
        required = {
            "number": is_within(number, number),
            "id": is_uuid,
            "time": is_within(0, MAX_NUMBER),
            "operation": is_text_within(256),
            "base": is_within(0, number - 1),
            "first": is_within(1, number),
            "fence": is_within(0, number),
        }

        def epoch(last):
            """14"""
            return {"epoch": is_within(FIRST_EPOCH, last)} if self.forgets else {}

        if number > 1:
            required.update(epoch(MAX_TIME // self.fields.get("epoch_length", 1)))
        epochs = epoch(table.get("epoch", 0))
        optional = {"token": bool, "shard": bool, "run": bool}
        if number == 1:
            optional = {}
        else:
            required["store"] = lambda value: value == self.fields["uuid"]
        check_fields(path, table, required, optional)
        for done in table.get("token", ()):
            check_fields(path, done, {
                "application": is_text_within(1024),
                "number": is_within(0, MAX_NUMBER),
                "version": is_within(2, number),
                "base": is_within(1, done.get("version", 1) - 1),
                **epochs,
            }, {"state": is_text_within(1 << 20)})
        tokens = table.get("token", ())
        strings = sum(len(done["application"].encode()) + len(done.get("state", "").encode()) for done in tokens)
        if len(tokens) > 65536 or strings > 1 << 24:
            raise Refused("%s: its tokens are more than a version may have" % path)
        for shard in table.get("shard", ()):
            check_fields(path, shard, {
                "shard": is_within(0, self.fields["shards"] - 1),
                "file": lambda value: is_text(value) and SHARD_FILE_NAME.fullmatch(value),
                "commit": is_within(0, MAX_NUMBER),
                "bytes": is_within(0, MAX_NUMBER),
                "entries": is_within(0, MAX_NUMBER),
                "rate": lambda value: isinstance(value, float) and 0 <= value <= 1,
                "since": is_within(2, number),
                "folded": is_within(1, shard.get("since", 2) - 1),
                **epochs,
            })
            if int(shard["file"][:-38]) >= shard["since"]:
                raise Refused("%s: %s is of a version that came later" % (path, shard["file"]))
        before = 1
        for run in table.get("run", ()):
            check_fields(path, run, {
                "file": lambda value: is_text(value) and RUN_FILE_NAME.fullmatch(value),
                "since": is_within(2, number),
                "to": is_within(2, run.get("since", number)),
                "from": is_within(before + 1, run.get("to", number)),
                "records": is_within(1, (1 << 32) - 1),
                "bytes": is_within(1, MAX_NUMBER),
                **epochs,
            })
            if int(run["file"][:-37]) >= run["since"]:
                raise Refused("%s: %s is of a version that came later" % (path, run["file"]))
            before = run["to"]
        if len(table.get("run", ())) > 4096:
            raise Refused("%s: more runs than a version may have" % path)
        for rows, name in ((table.get("token", ()), "application"), (table.get("shard", ()), "shard"), (table.get("run", ()), "file")):
            if len({row[name] for row in rows}) < len(rows):
                raise Refused("%s: two tables of one `%s`" % (path, name))
        return table

    def path_of(self, row):
        return os.path.join(self.root, "shards", "%04d" % row["shard"], row["file"])

    def filter(self, row):
        """10, step 4: the filter that the newest version names."""
        path, fields = self.path_of(row), self.fields
        contents = Filter(open_sealed(path), b"")
        block = contents.block
        for what, found, expected in (
            ("number of shards", block.shards, fields["shards"]),
            ("shard", block.shard, row["shard"]),
            ("kind", KINDS[block.kind], fields["kind"]),
            ("hash", block.hash_id, 1 if fields["hash"] == "xxh3" else 0),
            ("seed", block.seed, int(fields["seed"])),
            ("slots", block.n, fields["slots"]),
            ("uuid", block.uuid.hex(), row["file"][-37:-5]),
            ("commit", contents.commit, row["commit"]),
            ("length", len(contents.data), row["bytes"]),
            ("entries", contents.counts.entries, row["entries"]),
            ("epoch", contents.counts.epoch, row.get("epoch", 0)),
            ("forgetting", (block.forget_after, block.epoch_length, block.refresh),
             tuple(fields.get(name, 0) for name in ("forget_after", "epoch_length", "refresh"))),
        ):
            if found != expected:
                raise Refused("%s: its %s is %s, not %s" % (path, what, found, expected))
        return contents

    def statistics(self):
        rows = self.newest.get("shard", [])
        for row in rows:
            rate = self.filter(row).statistics(0)["expected_false_positive_rate"]
            if not math.isclose(rate, row["rate"], rel_tol=1e-9, abs_tol=1e-300):
                raise Refused("%s: its rate is %g, not %g" % (self.path_of(row), rate, row["rate"]))
        return {
            "store": self.fields["uuid"],
            "shards": self.fields["shards"],
            "versions": [version["number"] for version in self.versions],
            "version": self.newest["number"],
            "files": len(rows),
            "runs": len(self.runs),
            "pending": sum(run.count for run in self.runs),
            "entries": sum(row["entries"] for row in rows) + sum(run.count for run in self.runs),
            "bytes": sum(row["bytes"] for row in rows) + sum(len(run.data) for run in self.runs),
            "expected_false_positive_rate": sum(row["rate"] for row in rows) / self.fields["shards"],
            "tokens": {row["application"]: row["number"] for row in self.newest.get("token", [])},
        }

    def count(self, key):
        """12.2"""
        high, low = xxh3_128(key, int(self.fields["seed"]))
        shard, _ = shard_of(high, self.fields["shards"])
        row = next((row for row in self.newest.get("shard", ()) if row["shard"] == shard), None)
        if row and shard not in self.filters:
            self.filters[shard] = self.filter(row)
            self.filters[shard].verified = {}
        folded = row["folded"] if row else 0
        pending = [run for run, row in zip(self.runs, self.newest.get("run", ())) if row["to"] > folded]
        said = [run.copies[run.key(high, low)] for run in pending if run.key(high, low) in run.copies]
        copies = self.filters[shard].count(key) if shard in self.filters else 0
        if self.fields["kind"] == "set":
            return int(copies > 0 or bool(said))
        if self.forgets:
            # 14
            last = [run.epoch + run.copies[run.key(high, low)] for run in pending if run.key(high, low) in run.copies]
            last += [self.filters[shard].expires(key)] if shard in self.filters else []
            return int(max(last, default=0) > self.newest.get("epoch", FIRST_EPOCH))
        highest = 2 * Width(self.fields["slots"]).most_copies
        return highest if copies == highest else min(max(copies + sum(said), 0), highest)

    def answer(self, keys, out, counted):
        if self.fields["hash"] != "xxh3":
            raise Refused("the store was created for keys hashed by the caller")
        for key in keys:
            copies = self.count(key)
            if counted:
                out.write(b"%d\t%s\n" % (copies, key))
            elif copies > 0:
                out.write(key + b"\n")


# ---------------------------------------------------------------------------------------------------------------------
# The worked examples of appendix A

KEYS = [b"", b"gowk", b"cuckoo", b"https://example.org/a", b"\0"]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def key_text(key):
    return key.hex() if key else "-"


def place_examples():
    rows = []
    for n in range(7, 1, -1):
        width = Width(n, marked=False)
        for key, seed, regions in (
            (KEYS[0], 0, 1), (KEYS[1], 0, 3), (KEYS[2], 1, 1), (KEYS[2], 1, 3), (KEYS[2], 1, 6),
            (KEYS[3], 0x0123456789ABCDEF, 1000), (KEYS[4], M64, MAX_REGIONS),
        ):
            high, low = xxh3_128(key, seed)
            region, rem, first, tag, second, slot = width.place(high, low, regions)
            rows.append((n, "0x%016x" % seed, key_text(key), regions, "0x%016x" % high,
                         "0x%016x" % low, region, "0x%016x" % rem, first, tag, second,
                         "0x%0*x" % (-(-width.bits // 4), slot), "0x%016x" % slot))
    head = ("n", "seed", "key", "R", "pos", "loc", "region", "rem", "i1", "tag", "i2", "slot", "word")
    return table(head, rows)


def split_examples():
    rows = []
    for n in range(7, 1, -1):
        width = Width(n, marked=False)
        longest = width.tail_bits
        high, low = xxh3_128(KEYS[2], 1)
        stored = None
        for generation in range(longest + 2):
            before, width = width, Width(n, marked=generation > 0)
            region, _, _, _, _, fresh = width.place(high, low, 3 << generation)
            if stored is None:
                stored = fresh
            else:
                stored = split_slot(stored, before)[region & 1]
            assert matches(stored, fresh, width)
            tail = longest - (stored & -stored).bit_length() if width.marked else longest
            if generation <= 2 or generation >= longest:
                digits = -(-width.bits // 4)
                rows.append((n, generation, 3 << generation, region, tail, "0x%0*x" % (digits, stored),
                             "0x%0*x" % (digits, fresh)))
    return table(("n", "g", "R", "region", "tail bits", "stored slot", "fresh slot"), rows)


def forgetting_examples():
    rows = []
    expiry = 3975
    for n, expiry_bits in Width.FORGETTING:
        width = Width(n, expiry_bits, marked=False)
        longest = width.tail_bits
        high, low = xxh3_128(KEYS[2], 1)
        stored = None
        for generation in range(longest + 2):
            before, width = width, Width(n, expiry_bits, marked=generation > 0)
            region, _, _, _, _, fresh = width.place(high, low, 3 << generation)
            if stored is None:
                stored = fresh | expiry & width.expiry_mask
            else:
                stored = split_slot(stored, before)[region & 1]
            live, expired = (fresh | epoch & width.expiry_mask for epoch in (expiry - 1, expiry))
            assert matches(stored, live, width) and not matches(stored, expired, width)
            if generation <= 2 or generation >= longest:
                digits = -(-width.bits // 4)
                rows.append((n, expiry_bits, generation, 3 << generation,
                             *("0x%0*x" % (digits, slot) for slot in (stored, live, expired))))
    return table(("n", "a", "g", "R", "stored slot", "query of epoch 3974", "query of epoch 3975"), rows)


def forgetting_table():
    """4.10"""
    rows = []
    for n, expiry_bits in Width.FORGETTING:
        width = Width(n, expiry_bits, marked=False)
        most = (1 << expiry_bits) - 1
        rows.append((n, expiry_bits, most, width.tail_bits, "%.3g" % width.rate_at_full_load(), "1/%d" % (most - 1)))
    return table(("n", "a", "K", "fresh tail bits", "full-load rate", "epoch, as a part of `forget_after`"), rows)


def copies_table():
    """4.2"""
    rows = []
    for n in range(7, 1, -1):
        width = Width(n)
        most = [sum(width.highest_digit ** lane for lane in range(lanes)) for lanes in range(1, n + 1)]
        steps = ["%d to %d" % (below + 1, up_to) for below, up_to in zip(most, most[1:4])]
        rows.append((n, width.highest_digit, 1, *(steps + ["-", "-"])[:3], "up to %d" % width.most_copies))
    return table(("n", "D", "copies in 1 lane", "in 2", "in 3", "in 4", "in n"), rows)


def width_table():
    rows = []
    for n in range(7, 1, -1):
        width = Width(n, marked=False)
        geometry = Geometry(n, width.regions_for(50_000_000), 0)
        rate = width.rate_at_full_load()
        rows.append((n, width.bits, width.tag_bits, width.tail_bits, "%.3g" % rate, width.HEADROOM[n],
                     geometry.regions, "%.2f" % (geometry.file_length / 50e6)))
    return table(("n", "W", "T", "fresh tail bits", "full-load rate", "rho", "R for 50 M keys", "bytes a key at 50 M"),
                 rows)


# ---------------------------------------------------------------------------------------------------------------------
# Self-test

# XXH3-128 of the first `length` bytes of (i * 131 + 7) mod 256, i = 0, 1, ..., by the reference implementation.
KNOWN = [
    # length, seed, hash
    (0, 0x9e3779b97f4a7c15, 0xd142977a2cca554b4ca5176998171787),
    (1, 0x0, 0x495b62073ef70ca44c5cca45d0f4811f),
    (2, 0x9e3779b97f4a7c15, 0x729f8aae8729063c28a7b77c08c091eb),
    (3, 0x0, 0x390cdc5b4a895dd76e3e2670e61106ac),
    (4, 0x9e3779b97f4a7c15, 0x7e5d191bd8d354e6c63af37da30d5d08),
    (5, 0x0, 0xd9da89da8d7e169a62853c5f1a6eda6e),
    (8, 0x9e3779b97f4a7c15, 0x9b51bcd70be038f68a88691d5cecb7b6),
    (9, 0x0, 0x664c7ca18afd62558c7b67fd458a936b),
    (12, 0x9e3779b97f4a7c15, 0xfe7263475bad3e1e442320da91f80ffa),
    (16, 0x9e3779b97f4a7c15, 0xd5f6fdbf62cdc6811097f793402c818a),
    (17, 0x0, 0x66fc23f6439dbd778d96ef110fcdebb4),
    (31, 0x0, 0xd8201bc2fedefe5ccee425163875b69b),
    (32, 0x9e3779b97f4a7c15, 0x731432cbcc022e378113676252dbe0c7),
    (33, 0x0, 0x7228d9284a8116f6f8994653f4bfe6da),
    (64, 0x9e3779b97f4a7c15, 0x6c800fcd18b46b3260ce1b9d00ac1042),
    (65, 0x0, 0x9397df27b7a9871385326f4078a61329),
    (96, 0x9e3779b97f4a7c15, 0x4b06b5d340f2cb0279cd945d75928ca3),
    (97, 0x0, 0x9cfc8c7d6e7815c8bb385623e598c6d4),
    (128, 0x9e3779b97f4a7c15, 0x98b7168a26969c3618528564127001a4),
    (129, 0x0, 0x98cd36ccbb5579264545b3a09738e31a),
    (160, 0x9e3779b97f4a7c15, 0xdeee7a04eaa55fe211e6bcbf53d46961),
    (191, 0x0, 0x09c837328ea1c7869e291024d5135c77),
    (192, 0x9e3779b97f4a7c15, 0xdb2a44f809de3f092043d6fe63291ca7),
    (239, 0x0, 0x6e78178133d2c10bd0329d9f9566468d),
    (240, 0x9e3779b97f4a7c15, 0xde30c63ee85a3579fcac543705c8c541),
    (241, 0x0, 0xb53840fe3fedf161956cae592c67279e),
    (256, 0x9e3779b97f4a7c15, 0x32f10ace78688c3492999d62f0815eef),
    (512, 0x9e3779b97f4a7c15, 0xef18b85fd10899cc36385c68aa6755ea),
    (1024, 0x9e3779b97f4a7c15, 0xa888bfdf08883f70d8cf6b464541f232),
    (1025, 0x0, 0x621af7b8277effa466c4487c41e127a7),
    (1088, 0x9e3779b97f4a7c15, 0x587a0c6b2bc695fa050512fe2d81f442),
    (2048, 0x9e3779b97f4a7c15, 0xa6eec3389bcb8b729f2f0261a2592b60),
    (5000, 0x9e3779b97f4a7c15, 0x7eb32cc3d9430d4e2b84b035a03235c8),
]


def self_test():
    pattern = bytes((i * 131 + 7) % 256 for i in range(5000))
    for length, seed, expected in KNOWN:
        high, low = xxh3_128(pattern[:length], seed)
        assert high << 64 | low == expected, "XXH3-128 of %d bytes under seed %#x" % (length, seed)
    for tag_bits, in_line, in_page in ((6, 12, 44), (10, 0, 896)):
        offsets = offset_table(tag_bits)
        assert len(offsets) == 1 << tag_bits and all(0 < value < BUCKETS_PER_REGION for value in offsets)
        assert sum(value < 8 for value in offsets) == in_line
        assert sum(8 <= value < BUCKETS_PER_PAGE for value in offsets) == in_page
        span = {0}
        for value in offsets:
            span |= {value >> 9 ^ other for other in span}
        assert len(span) == PAGES_PER_REGION
    assert set(range(8, 512)) <= set(offset_table(10))
    # Shards of regions are the regions of one file; and the worked example of 3.5.
    for shards, regions in ((1, 3), (2, 1), (3, 5), (16, 3), (65536, 65536)):
        for position in range(0, M64, M64 // 101):
            shard, left = shard_of(position, shards)
            region, rem = left * regions >> 64, left * regions & M64
            assert position * shards * regions == (shard * regions + region) << 64 | rem
    high, _ = xxh3_128(b"cuckoo", 1)
    assert shard_of(high, 16) == (1, 0x4C1782B8CBF97080)
    assert 0x4C1782B8CBF97080 * 3 == 0xE446882A63EC5180 and high * 48 >> 64 == 3
    for n in range(2, 8):
        width = Width(n)
        assert width.tail_bits >= 2
        for local in range(0, M64, M64 // 61):
            *_, first, tag, second, query = width.place(local ^ 0x5555555555555555, local, 3)
            assert second ^ width.offsets[tag] == first != second
            assert matches(query, query, width) and matches(width.universal, query, width)
            assert not matches(0, query, width) and not matches(query, query ^ 2, width)
            assert not matches(1 << width.bits - width.tag_bits, query, width)
        # Fingerprints of 0 and 1 stay one entry, and all others apart, when their filter is marked in either way.
        bare = Width(n, marked=False)
        tail_bits = bare.tail_bits
        for tag, tail in ((0, 0), (0, 1), (0, 2), (0, 3), (5, 0), (5, 1), (0, 1 << tail_bits - 1)):
            local, position = tag << 64 - width.tag_bits, tail << 64 - tail_bits
            *_, stored = bare.place(position, local, 1)
            for other in range(1 << tail_bits) if tail_bits < 10 else (0, 1, 2, 3, tail, tail ^ 1, tail ^ 2):
                *_, query = bare.place(other << 64 - tail_bits, local, 1)
                same = tail == other or tag == 0 and {tail, other} == {0, 1}
                assert matches(stored, query, bare) == same
                region, *_, next_query = width.place(other << 64 - tail_bits, local, 2)
                assert matches(split_slot(stored, bare)[region], next_query, width) == same
                *_, marked_query = width.place(other << 64 - tail_bits, local, 1)
                assert matches(mark_slot(stored, bare), marked_query, width) == (tail >> 1 == other >> 1)
    # 12.2, in the stores of the vectors: published packages have none, and Python below 3.11 reads no TOML.
    stores = os.path.join(HERE, "vectors", "stores")
    for kind in ("set", "counting") if os.path.isdir(stores) and sys.version_info >= (3, 11) else ():
        store, out = Store(os.path.join(stores, kind)), io.BytesIO()
        store.answer([b"key %d" % number for number in (0, 7, 12, 420, 450)], out, True)
        found = [int(line.split(b"\t")[0]) for line in out.getvalue().splitlines()]
        assert found == ([1, 1, 1, 1, 0] if kind == "set" else [0, 599, 3, 1, 0]), "counts of %s: %s" % (kind, found)
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as text:
        readme = text.read()
    with open(os.path.join(HERE, "examples.txt"), encoding="utf-8") as text:
        readme += text.read()
    assert groups(0x0C00740074F975F2, Width(4)) == [(0x75F2, 1), (0x74F9, 123)]
    for expected in (place_examples(), split_examples(), forgetting_examples(), width_table(), copies_table(),
                     forgetting_table()):
        assert "\n".join(expected) in readme, "the specification lacks the table that begins %s" % expected[0]
    constants = dict(re.findall(r"^\| ([A-Za-z0-9 -]+) \| ([0-9a-f ]+) \|$", readme, re.M))
    for name, value in (
        ("page size", PAGE), ("buckets per page", BUCKETS_PER_PAGE), ("pages per region", PAGES_PER_REGION),
        ("buckets per region", BUCKETS_PER_REGION), ("region size", REGION), ("max regions", MAX_REGIONS),
        ("max id and commit", MAX_NUMBER),
        ("superblock slot size", SLOT), ("metadata offset", METADATA_AT), ("metadata limit", METADATA_LIMIT),
        ("slot CRC offset", SLOT_CRC_AT), ("live offset", LIVE), ("live sequences offset", LIVE_SEQUENCES),
        ("journal header size", JOURNAL_HEADER), ("frame alignment", FRAME_ALIGN), ("frame header size", FRAME_HEADER),
        ("frame payload limit", FRAME_PAYLOAD_LIMIT), ("tail lengths", TAIL_LENGTHS), ("counts size", COUNTS),
        ("kind set", KIND_SET), ("kind counting", KIND_COUNTING), ("kind forgetting", KIND_FORGETTING),
        ("feature forgetting", FEATURE_FORGETTING), ("feature unmarked", FEATURE_UNMARKED), ("first epoch", FIRST_EPOCH), ("max time", MAX_TIME),
    ):
        assert constants.get(name) == str(value), "README.md: constant `%s`" % name
    for name, value in (
        ("magic", MAGIC), ("journal magic", JOURNAL_MAGIC), ("frame magic", FRAME_MAGIC),
        ("state idle", b"gowkidle"), ("state in use", b"gowkbusy"), ("canary key", b"gowk"),
    ):
        assert bytes.fromhex(constants.get(name, "")) == value, "README.md: constant `%s`" % name
    print("ok")


# ---------------------------------------------------------------------------------------------------------------------


def lines(stream):
    """Keys, one a line: an empty line is a key, a carriage return is kept, the last newline may be missing."""
    for line in stream:
        yield line[:-1] if line.endswith(b"\n") else line


def main():
    parser = argparse.ArgumentParser(description="Reads gowk files, format 1.0.")
    parser.add_argument("file", nargs="?", metavar="FILE")
    parser.add_argument("--check", action="store_true", help="print the keys of standard input that are present")
    parser.add_argument("--count", action="store_true", help="print the copies of each key of standard input")
    parser.add_argument("--examples", action="store_true", help="print the worked examples of the specification")
    parser.add_argument("--self-test", action="store_true", help="check this program and README.md")
    options = parser.parse_args()
    if options.self_test:
        self_test()
    if options.examples:
        print("\n".join(width_table() + [""] + place_examples() + [""] + split_examples() + [""] + forgetting_examples()))
    if options.file is None:
        if not (options.self_test or options.examples):
            parser.error("FILE is missing")
        return 0
    try:
        if os.path.isdir(options.file):
            store = Store(options.file)
            if options.check or options.count:
                store.answer(lines(sys.stdin.buffer), sys.stdout.buffer, options.count)
            else:
                print(json.dumps(store.statistics()))
            return 0
        file, data, journal_bytes = open_files(options.file)
        contents = Filter(data, journal_bytes)
        if options.check or options.count:
            contents.answer(lines(sys.stdin.buffer), sys.stdout.buffer, options.count)
        else:
            print(json.dumps(contents.statistics(max(0, len(journal_bytes) - JOURNAL_HEADER))))
    except Damage as damage:
        for page, reason in damage.args[0]:
            print("%s: page %d (region %d) %s" % (options.file, page, page // PAGES_PER_REGION, reason), file=sys.stderr)
        return 1
    except Refused as refused:
        print("%s: %s" % (options.file, refused), file=sys.stderr)
        return 2
    except OSError as error:
        print("%s: %s" % (options.file, error.strerror or error), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
