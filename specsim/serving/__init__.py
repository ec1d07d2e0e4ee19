"""A load on replicas over time: latencies, how many accelerators it needs, and what it costs."""
