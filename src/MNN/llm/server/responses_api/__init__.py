"""OpenAI's Responses protocol (``/v1/responses``) in front of what answers chats: requests, items, streams, and the
responses that later ones go on from."""
