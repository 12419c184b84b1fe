"""Context Engine: user-scoped, explainable, fresh context for AI agents in a workspace product."""
