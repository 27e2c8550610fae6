"""Commands that measure, learn from what was measured, and judge what was learned."""
