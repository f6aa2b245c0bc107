-- For wrk: each request with the next of the keys in the file that the environment names.
local keys = {}
for line in io.lines(os.getenv("BENCH_KEYS")) do
  keys[#keys + 1] = wrk.format("GET", "/v1/pets", { Authorization = "Bearer " .. line, Host = "bench.test" })
end
local next_key = 0
function request()
  next_key = next_key % #keys + 1
  return keys[next_key]
end
