//! A network over HTTP, server-sent events, WebSocket, gRPC and MCP, as the reference's SDK speaks them.
