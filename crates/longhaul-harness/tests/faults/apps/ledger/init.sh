#!/bin/sh
# Starts the application on $PORT; its data is in $DATA_DIR.
exec python3 server.py
