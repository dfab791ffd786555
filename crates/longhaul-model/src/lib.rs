//! Chat models behind one port, token counts, and cassettes served over the real wire protocol.
