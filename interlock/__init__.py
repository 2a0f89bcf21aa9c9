"""interlock"""
