"""The local stack: a Kafka broker, Valkey and PostgreSQL as child processes on 127.0.0.1.

```python
async with LocalStack.start(on_progress=print) as stack:
    subprocess.run(["context-engine", "migrate"], env=os.environ | stack.env())
```
"""

from workers.localstack.errors import LocalStackError, PartFailed, UnsupportedPlatform
from workers.localstack.kafka import SmallKafka
from workers.localstack.maven import kafka_jars
from workers.localstack.maven_kafka import MavenKafka
from workers.localstack.outside import OutsideKafka
from workers.localstack.part import Part
from workers.localstack.postgres import Postgres
from workers.localstack.stack import LocalStack
from workers.localstack.valkey import Valkey

__all__ = [
    "LocalStack",
    "LocalStackError",
    "MavenKafka",
    "OutsideKafka",
    "Part",
    "PartFailed",
    "Postgres",
    "SmallKafka",
    "UnsupportedPlatform",
    "Valkey",
    "kafka_jars",
]
