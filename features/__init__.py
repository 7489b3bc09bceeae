"""Features: item table, resident columns, behaviour, live views and the store they are read from."""
