"""The OpenAPI document: what routes cannot say of themselves."""
