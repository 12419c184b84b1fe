"""The wire: topics, CloudEvents, messages, the client, dead letters."""
