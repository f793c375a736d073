// ioredis.js PORT: commands by name, in automatic pipelines, and with its ready check.
const assert = require('node:assert');
const Redis = require('ioredis');

const port = Number(process.argv[2]);

async function main() {
    const client = new Redis({ port, enableAutoPipelining: true, connectionName: 'judge', maxRetriesPerRequest: 1 });
    assert.strictEqual(await client.call('CLIENT', 'GETNAME'), 'judge');
    const name = 'io';
    assert.strictEqual(await client.call('BF.RESERVE', `${name}:s`, '0.001', '1000'), 'OK');
    await assert.rejects(client.call('BF.RESERVE', `${name}:s`, '0.001', '1000'), /item exists/);
    const added = await Promise.all(
        Array.from({ length: 500 }, (_, key) => client.call('BF.ADD', `${name}:s`, `key ${key}`)));
    assert.ok(added.filter((answer) => answer === 1).length >= 499);
    assert.deepStrictEqual(await client.call('BF.MEXISTS', `${name}:s`, 'key 1', 'none'), [1, 0]);
    assert.strictEqual(await client.call('CF.ADD', `${name}:c`, Buffer.from([0, 13, 10, 255])), 1);
    assert.strictEqual(await client.call('CF.COUNT', `${name}:c`, Buffer.from([0, 13, 10, 255])), 1);
    const results = await client.multi().call('CF.ADD', `${name}:c`, 'x').call('CF.COUNT', `${name}:c`, 'x').exec();
    assert.deepStrictEqual(results, [[null, 1], [null, 1]]);
    assert.strictEqual(await client.exists(`${name}:s`, `${name}:c`), 2);
    const found = [];
    for await (const keys of client.scanStream({ match: `${name}:*` })) found.push(...keys);
    assert.deepStrictEqual([...new Set(found)].sort(), [`${name}:c`, `${name}:s`]);
    assert.strictEqual(await client.del(`${name}:c`), 1);
    assert.strictEqual(await client.quit(), 'OK');
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
