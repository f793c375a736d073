"""redis_py.py PORT PROTOCOL: redis-py's modules for Bloom and cuckoo filters, blocking and async."""

import asyncio
import sys

import redis
import redis.asyncio
from redis.exceptions import ResponseError

port, protocol = int(sys.argv[1]), int(sys.argv[2])
name = f"py{protocol}"


def raises(call, *args, **options):
    try:
        answer = call(*args, **options)
    except ResponseError as error:
        return str(error)
    raise AssertionError(f"{args}: {answer} is no error")


def blocking():
    client = redis.Redis(port=port, protocol=protocol, decode_responses=True, client_name="judge")
    assert client.ping() and client.client_getname() == "judge"
    assert client.info("persistence")["loading"] == 0
    bf, cf = client.bf(), client.cf()

    s = f"{name}:s"
    assert bf.create(s, 0.001, 1000)
    assert "item exists" in raises(bf.create, s, 0.001, 1000)
    assert bf.add(s, "a") == 1 and bf.add(s, "a") == 0
    assert list(bf.madd(s, "a", "b")) == [0, 1]
    assert list(bf.insert(s, ["a", "c"])) == [0, 1]
    assert bf.exists(s, "c") == 1 and bf.exists(s, "z") == 0
    assert list(bf.mexists(s, "a", "z")) == [1, 0]
    assert bf.card(s) == 3
    info = bf.info(s)
    field = lambda title, attribute: info[title] if isinstance(info, dict) else getattr(info, attribute)
    assert field("Capacity", "capacity") == 1000 and field("Number of items inserted", "insertedNum") == 3
    assert bf.create(f"{name}:fixed", 0.01, 3, noScale=True)
    assert list(bf.madd(f"{name}:fixed", 1, 2, 3)) == [1, 1, 1]
    assert "non scaling filter is full" in raises(bf.add, f"{name}:fixed", 4)
    assert "gowk copy" in raises(bf.scandump, s, 0)
    assert list(bf.insert(f"{name}:new", [1, 2], capacity=500, error=0.01)) == [1, 1]
    assert "not found" in raises(bf.insert, f"{name}:none", [1], noCreate=True)
    binary = bytes(range(256))
    assert bf.add(s, binary) == 1 and bf.exists(s, binary) == 1

    c = f"{name}:c"
    assert cf.create(c, 1000, bucket_size=4, max_iterations=10, expansion=2)
    assert cf.add(c, "a") == 1 and cf.add(c, "a") == 1 and cf.addnx(c, "a") == 0
    assert list(cf.insert(c, ["a", "b"])) == [1, 1] and list(cf.insertnx(c, ["a", "d"])) == [0, 1]
    assert cf.count(c, "a") == 3 and cf.delete(c, "a") == 1 and cf.count(c, "a") == 2
    assert list(cf.mexists(c, "a", "z")) == [1, 0] and cf.exists(c, "b") == 1
    info = cf.info(c)
    assert field("Number of items inserted", "insertedNum") == 4
    assert "not found" in raises(cf.delete, f"{name}:none", "a").lower()
    assert "WRONGTYPE" in raises(cf.add, s, "a") and "WRONGTYPE" in raises(bf.add, c, "a")

    # With MULTI and EXEC, and without.
    for transaction in (True, False):
        pipe = client.pipeline(transaction=transaction)
        pipe.bf().add(s, f"piped {transaction}")
        pipe.bf().mexists(s, f"piped {transaction}", "z")
        pipe.cf().count(c, "a")
        first, found, count = pipe.execute()
        assert first == 1 and list(found) == [1, 0] and count == 2

    # As crawlee's request queue creates its filters and asks them.
    pipe = client.pipeline()
    for key in ("added", "handled"):
        pipe.bf().create(f"{name}:{key}", errorRate=1e-7, capacity=100000, expansion=10)
    assert pipe.execute() in ([True, True], ["OK", "OK"])
    urls = [f"https://example.org/{number}" for number in range(10000)]
    assert sum(bf.madd(f"{name}:added", *urls)) == 10000
    assert list(bf.mexists(f"{name}:added", *urls, "z")) == [1] * 10000 + [0]

    assert set(client.scan_iter(match=f"{name}:*", count=3)) == set(client.keys(f"{name}:*"))
    assert client.type(s) == "MBbloom--" and client.exists(s, c) == 2
    assert client.delete(c) == 1 and client.unlink(f"{name}:new") == 1 and client.exists(c) == 0


async def many_tasks():
    client = redis.asyncio.Redis(port=port, protocol=protocol)
    # At the default rate, one of the thousand keys is taken for another in 3 % of all runs.
    await client.bf().create(f"{name}:tasks", 1e-8, 1000)

    async def task(number):
        return sum([await client.bf().add(f"{name}:tasks", f"{number} {key}") for key in range(20)])

    assert sum(await asyncio.gather(*(task(number) for number in range(50)))) == 1000
    assert await client.bf().card(f"{name}:tasks") == 1000
    await client.aclose()


blocking()
asyncio.run(many_tasks())
