-- Beside slurm.conf, with CliFilterPlugins=lua: sbatch, salloc and srun ask before they submit.
-- The controller waits for nothing, and a user can go round it.

local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/"
local loaded, perfmodel = pcall(dofile, folder .. "perfmodel.lua")

-- No limit reads as the largest number of minutes, written out in days.
local function unset(limit)
  return limit == nil or limit == "" or tonumber(limit:match("^(%d+)%-") or "0") > 1000000
end

local function set(options)
  local nodes = tonumber((tostring(options["nodes"] or "1"):match("%d+"))) or 1
  local per_node, per_job = options["gpus-per-node"], options["gpus"]
  local gpus = perfmodel.gpus(
    per_node and "gpu:" .. per_node or options["gres"], per_job and "gpu:" .. per_job, nodes
  )
  local named = options["partition"]
  local partition, minutes = perfmodel.choose(options["comment"], named, nodes, gpus)
  if partition == nil then return end
  options["partition"] = partition
  if minutes ~= nil and unset(options["time"]) then
    options["time"] = tostring(minutes)
  end
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
  if loaded then pcall(set, options) end
  return slurm.SUCCESS
end

function slurm_cli_post_submit(pack_offset, job_id, step_id)
  return slurm.SUCCESS
end

return slurm.SUCCESS
