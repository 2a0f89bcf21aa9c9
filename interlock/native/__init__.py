"""Python side of the native engine, which is a wheel of its own (`interlock-native`)."""
