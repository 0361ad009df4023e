-- One request again and again, as the environment describes it; at the end one line of figures.
wrk.method = os.getenv("BENCH_METHOD") or "GET"
wrk.body = os.getenv("BENCH_BODY")
if wrk.body == "" then wrk.body = nil end
local token = os.getenv("BENCH_TOKEN")
if token and token ~= "" then wrk.headers["Authorization"] = "Bearer " .. token end
if wrk.body then wrk.headers["Content-Type"] = "application/json" end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("FIGURES %d %d %f %f %d\n", summary.requests, summary.duration, latency:percentile(50), latency:percentile(95),
    e.connect + e.read + e.write + e.status + e.timeout))
end
