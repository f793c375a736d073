"""A store on Spark: finds the rows whose key no earlier batch had, and makes a version of the store for each batch.

>>> store = gowk.spark.SparkStore("/data/crawl.store")                     # doctest: +SKIP
>>> new = store.unseen(df, "url", application="crawl", batch=118)     # rows whose key is new; of equal keys one row
>>> new.write.mode("overwrite").parquet("/data/new/batch=118")        # an idempotent sink, first
>>> store.insert(df, "url", application="crawl", batch=118)           # then the keys: one version, exactly once
>>> store.mark(df, "url")                                             # a column `seen`; lookups only
>>> store.compact()                                                   # no run left for later lookups; seldom needed

Spark shuffles the keys by shard, schedules tasks and repeats failed tasks. A task works on one shard. It writes few keys
as a run, and many as a new file of its shard. The driver publishes one version for a batch, all or nothing. The store
lies in a bucket, or in a folder that the driver and all executors reach by the same path.

Invariants:

1. ``unseen`` reads the version before the batch's token, and a key's answer depends only on that version and the key.
   So a repeated task, stage or batch finds the same keys new.
2. A task writes only files that no version names. One commit on the driver publishes them, and it carries the
   token, so that a repeated batch changes nothing.
3. Only vacuums delete files of the store: ``vacuum``, or commits of a store that was created with ``--keep``. They remove
   the files of tasks that died or whose result was not used.

``bindings/python/docs/spark.md`` says how to size a store and a cluster, and what to expect of retries.
"""

from __future__ import annotations

try:
    import pyarrow
    import pyspark
    import pyspark.sql.datasource
except ImportError as error:
    raise ImportError("gowk.spark needs pyspark 4.1 or later and pyarrow: pip install 'gowk[spark]'") from error
if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < (4, 1):
    raise ImportError(f"gowk.spark needs pyspark 4.1 or later, and this is {pyspark.__version__}: pip install 'gowk[spark]'")

from ._source import Source
from ._store import SparkStore

__all__ = ["SparkStore", "Source"]
