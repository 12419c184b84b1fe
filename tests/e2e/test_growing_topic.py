"""A partition that is added to a topic while the house runs."""

from __future__ import annotations

import secrets

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

from events.producer import Producer
from tests.support.stack import kafka_choice
from workers.localstack import LocalStack

pytestmark = pytest.mark.timeout(60)


@pytest.mark.skipif(kafka_choice() == "small", reason="the small broker adds no partitions")
async def test_heartbeats_know_of_a_new_partition_at_once(stack: LocalStack) -> None:
    """A relay that learnt of it minutes later would prove all partitions but the one in which a
    change may wait."""
    topic = f"growing.{secrets.token_hex(4)}"
    admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka_bootstrap)
    producer = Producer(stack.kafka_bootstrap, client_id="test")
    await admin.start()
    await producer.start()
    try:
        await admin.create_topics([NewTopic(topic, 1, 1)])
        assert await producer.partitions(topic) == 1
        await admin.create_partitions({topic: NewPartitions(3)})
        assert await producer.partitions(topic) == 3
    finally:
        await producer.stop()
        await admin.close()
